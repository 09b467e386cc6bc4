//! Runs the threads of a group from one synchronisation to the next.

use std::{ffi::CStr, ptr};

use corosensei::{Coroutine, CoroutineResult};

use super::Worker;
use crate::{
    Place,
    abi::{SIMD_WIDTH, Scope},
    fault::Fault,
    order::Schedule,
};

/// Where a simdgroup stands when none of its lanes can run on by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// At a threadgroup barrier, with this lane there.
    Barrier(usize),
    Returned,
}

impl State {
    fn at_barrier(&self) -> Option<usize> {
        if let Self::Barrier(lane) = *self {
            Some(lane)
        } else {
            None
        }
    }
}

impl Worker {
    /// Runs all threads to their end. Simdgroups run in turn, each up to the next barrier of the
    /// group.
    pub(super) fn run_threads(&mut self, schedule: &mut Schedule) -> Result<(), Fault> {
        let simdgroups = self.lanes.len().div_ceil(SIMD_WIDTH);
        let mut state = vec![State::Ready; simdgroups];
        let mut active: Vec<u32> = (0..simdgroups).map(|s| self.all_lanes(s)).collect();
        let mut order: Vec<usize> = (0..simdgroups).collect();
        loop {
            schedule.arrange(&mut order);
            for &s in &order {
                if state[s] == State::Ready {
                    state[s] = self.run_simdgroup(s, &mut active[s], schedule)?;
                }
            }
            let Some(first) = state.iter().find_map(State::at_barrier) else {
                return Ok(());
            };
            for (s, each) in state.iter_mut().enumerate() {
                self.all_present(first, s, active[s])?;
                if let Some(lane) = each.at_barrier() {
                    self.same_place(first, lane)?;
                }
                *each = State::Ready;
            }
        }
    }

    /// Lanes of a simdgroup that exist, a bit each.
    fn all_lanes(&self, simdgroup: usize) -> u32 {
        let lanes = (self.lanes.len() - simdgroup * SIMD_WIDTH).min(SIMD_WIDTH);
        u32::MAX >> (SIMD_WIDTH - lanes)
    }

    /// Runs the lanes of a simdgroup from one operation among them to the next, until they wait for
    /// other simdgroups or have returned. `active` loses the lanes that return.
    fn run_simdgroup(
        &mut self,
        s: usize,
        active: &mut u32,
        schedule: &mut Schedule,
    ) -> Result<State, Fault> {
        let base = s * SIMD_WIDTH;
        loop {
            let order = schedule.lanes();
            let mut first = None;
            for i in 0..SIMD_WIDTH {
                let lane = order.lane(i);
                if *active >> lane & 1 == 0 {
                    continue;
                }
                let thread = &mut self.threads[base + lane];
                // SAFETY: the address of this host thread's variable, found in `begin` for the
                // module that runs.
                unsafe { *self.current = &raw mut self.lanes[base + lane] };
                match thread.as_mut().map(|thread| thread.resume(())) {
                    Some(CoroutineResult::Yield(())) => match first {
                        None => first = Some(base + lane),
                        Some(first) => self.same_place(first, base + lane)?,
                    },
                    Some(CoroutineResult::Return(())) | None => {
                        *active &= !(1 << lane);
                        self.stacks.extend(thread.take().map(Coroutine::into_stack));
                    }
                }
            }
            let Some(first) = first else {
                return Ok(State::Returned);
            };
            match self.lanes[first].scope {
                Scope::GROUP => return Ok(State::Barrier(first)),
                Scope::FAULT => {
                    let wanted = self.group.wanted as usize;
                    return Err(Fault::ThreadgroupMemory {
                        place: Box::new(self.place(first)),
                        wanted,
                    });
                }
                Scope::MATRIX if *active != u32::MAX => {
                    let missing = (base as u32) + active.trailing_ones();
                    return Err(self.missing(first, missing));
                }
                _ => {}
            }
            let simdgroup = &mut self.simdgroups[s];
            simdgroup.page[(simdgroup.step & 1) as usize].active = *active;
            simdgroup.step += 1;
        }
    }

    fn all_present(&self, waiting: usize, simdgroup: usize, active: u32) -> Result<(), Fault> {
        if active == self.all_lanes(simdgroup) {
            return Ok(());
        }
        Err(self.missing(
            waiting,
            (simdgroup * SIMD_WIDTH) as u32 + active.trailing_ones(),
        ))
    }

    fn missing(&self, waiting: usize, missing: u32) -> Fault {
        Fault::Missing {
            waiting: Box::new(self.place(waiting)),
            missing,
        }
    }

    #[inline]
    fn same_place(&self, first: usize, second: usize) -> Result<(), Fault> {
        let (a, b) = (&self.lanes[first], &self.lanes[second]);
        if a.line == b.line && ptr::eq(a.operation, b.operation) && ptr::eq(a.file, b.file) {
            return Ok(());
        }
        self.same_text(first, second)
    }

    /// Equal texts need not be one literal.
    #[cold]
    fn same_text(&self, first: usize, second: usize) -> Result<(), Fault> {
        let (first, second) = (self.place(first), self.place(second));
        if (first.line, &first.operation, &first.file)
            == (second.line, &second.operation, &second.file)
        {
            return Ok(());
        }
        let (first, second) = (Box::new(first), Box::new(second));
        Err(Fault::Divergence { first, second })
    }

    fn place(&self, lane: usize) -> Place {
        let lane = &self.lanes[lane];
        // SAFETY: a lane that has stopped points to string literals of the loaded module.
        let text = |at| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
        Place {
            operation: text(lane.operation),
            file: text(lane.file),
            line: lane.line,
            thread: lane.position,
        }
    }
}
