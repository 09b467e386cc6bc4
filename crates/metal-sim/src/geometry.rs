//! How a grid falls into threadgroups.

/// Extents of a launch, in threads and in groups.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub grid: [u32; 3],
    /// Threads of a full group: what was asked for, at most the grid.
    pub threadgroup: [u32; 3],
    pub groups: [u32; 3],
}

impl Geometry {
    /// From extents that have been checked to lie between 1 and `u32::MAX`.
    pub fn new(grid: [usize; 3], threadgroup: [usize; 3]) -> Self {
        let grid = grid.map(|n| n as u32);
        let axes = [0, 1, 2];
        let threadgroup = axes.map(|a| (threadgroup[a] as u32).min(grid[a]));
        let groups = axes.map(|a| grid[a].div_ceil(threadgroup[a]));
        Self {
            grid,
            threadgroup,
            groups,
        }
    }

    pub fn group_count(&self) -> u64 {
        self.groups
            .iter()
            .fold(1, |product, &n| product.saturating_mul(u64::from(n)))
    }

    /// Position of the `index`-th group; x runs fastest.
    pub fn position(&self, index: u64) -> [u32; 3] {
        let [x, y] = [u64::from(self.groups[0]), u64::from(self.groups[1])];
        [
            (index % x) as u32,
            (index / x % y) as u32,
            (index / x / y) as u32,
        ]
    }

    /// Threads of the group at `position`: fewer at the far edges of a grid that is not a multiple.
    pub fn size(&self, position: [u32; 3]) -> [u32; 3] {
        [0, 1, 2].map(|a| self.threadgroup[a].min(self.grid[a] - position[a] * self.threadgroup[a]))
    }
}

/// Position in a group of the thread with the given index; x runs fastest.
pub fn thread_position(size: [u32; 3], index: u32) -> [u32; 3] {
    [
        index % size[0],
        index / size[0] % size[1],
        index / size[0] / size[1],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_the_grid_exactly() {
        for (grid, threadgroup) in [
            ([7, 5, 3], [4, 2, 2]),
            ([1, 1, 1], [32, 8, 1]),
            ([64, 1, 1], [32, 1, 1]),
            ([33, 2, 1], [32, 2, 1]),
        ] {
            let geometry = Geometry::new(grid, threadgroup);
            let threads: u64 = (0..geometry.group_count())
                .map(|g| {
                    geometry
                        .size(geometry.position(g))
                        .iter()
                        .map(|&n| u64::from(n))
                        .product::<u64>()
                })
                .sum();
            assert_eq!(threads, grid.iter().product::<usize>() as u64);
        }
    }
}
