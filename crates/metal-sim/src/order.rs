//! The order in which threads and simdgroups run.

use crate::{Order, abi::SIMD_WIDTH};

/// Draws orders, one after the other.
pub struct Schedule {
    order: Order,
    state: u64,
}

impl Schedule {
    /// `stream` tells apart the threadgroups of a launch, so that the draw does not depend on which
    /// host thread runs one.
    pub fn new(order: Order, stream: u64) -> Self {
        let seed = if let Order::Shuffled(seed) = order {
            seed
        } else {
            0
        };
        Self {
            order,
            state: seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// Steele, Lea and Flood's `SplitMix64`.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An order of the lanes of a simdgroup.
    pub fn lanes(&mut self) -> LaneOrder {
        match self.order {
            Order::Forward => LaneOrder { step: 1, start: 0 },
            Order::Reverse => LaneOrder {
                step: -1,
                start: -1,
            },
            Order::Shuffled(_) => {
                let bits = self.draw();
                LaneOrder {
                    step: (bits as i32) | 1,
                    start: (bits >> 32) as i32,
                }
            }
        }
    }

    /// Puts `items` in order.
    pub fn arrange(&mut self, items: &mut [usize]) {
        match self.order {
            Order::Forward => items.sort_unstable(),
            Order::Reverse => items.sort_unstable_by(|a, b| b.cmp(a)),
            Order::Shuffled(_) => {
                for last in (1..items.len()).rev() {
                    items.swap(last, (self.draw() % (last as u64 + 1)) as usize);
                }
            }
        }
    }
}

/// An affine permutation of the lanes: the i-th to run is `start + step * i`, modulo their number;
/// `step` is odd.
#[derive(Clone, Copy)]
pub struct LaneOrder {
    step: i32,
    start: i32,
}

impl LaneOrder {
    pub fn lane(self, i: usize) -> usize {
        self.start.wrapping_add(self.step.wrapping_mul(i as i32)) as usize % SIMD_WIDTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_a_permutation() {
        for order in [
            Order::Forward,
            Order::Reverse,
            Order::Shuffled(1),
            Order::Shuffled(99),
        ] {
            let mut schedule = Schedule::new(order, 3);
            for _ in 0..20 {
                let lanes = schedule.lanes();
                let mut seen: Vec<usize> = (0..SIMD_WIDTH).map(|i| lanes.lane(i)).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..SIMD_WIDTH).collect::<Vec<_>>());
                let mut items: Vec<usize> = (0..7).collect();
                schedule.arrange(&mut items);
                items.sort_unstable();
                assert_eq!(items, (0..7).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn named_orders_are_what_they_say() {
        let ends = |order| {
            let lanes = Schedule::new(order, 0).lanes();
            (lanes.lane(0), lanes.lane(31))
        };
        assert_eq!(ends(Order::Forward), (0, 31));
        assert_eq!(ends(Order::Reverse), (31, 0));
    }
}
