//! Position and size attributes, over grids that are and are not multiples of the group.

mod common;

use common::Job;
use metal_sim::DType;

/// Extents of the launches below: one with whole groups, one uneven in every axis, one smaller than
/// the group.
const LAUNCHES: [([usize; 3], [usize; 3]); 3] = [
    ([8, 4, 2], [4, 2, 2]),
    ([7, 5, 3], [4, 2, 2]),
    ([3, 2, 1], [16, 16, 1]),
];

/// Everything Metal says about one thread, computed in plain Rust.
struct Thread {
    grid: [usize; 3],
    requested: [usize; 3],
    position: [usize; 3],
}

impl Thread {
    fn group(&self) -> [usize; 3] {
        [0, 1, 2].map(|a| self.position[a] / self.requested[a])
    }
    fn local(&self) -> [usize; 3] {
        [0, 1, 2].map(|a| self.position[a] % self.requested[a])
    }
    fn size(&self) -> [usize; 3] {
        [0, 1, 2].map(|a| self.requested[a].min(self.grid[a] - self.group()[a] * self.requested[a]))
    }
    fn index(&self) -> usize {
        let ([x, y, z], [w, h, _]) = (self.local(), self.size());
        x + w * (y + h * z)
    }
}

/// Runs `out[i] = <attribute>` in every thread of each launch and compares with `expected`.
fn check(attribute: &str, expected: impl Fn(&Thread) -> usize) {
    for (grid, threadgroup) in LAUNCHES {
        let requested = [0, 1, 2].map(|a| threadgroup[a].min(grid[a]));
        let count = grid.iter().product();
        let mut job = Job::new(1, count, DType::U32);
        (job.grid, job.threadgroup) = (grid, threadgroup);
        // The same text for every launch, so that it is compiled once.
        let body = format!(
            "uint3 p = thread_position_in_grid, g = threads_per_grid;
             out[p.x + g.x * (p.y + g.y * p.z)] = {attribute};"
        );
        let out = job.run::<u32>(&body);
        for (i, &found) in out.iter().enumerate() {
            let position = [i % grid[0], i / grid[0] % grid[1], i / grid[0] / grid[1]];
            let thread = Thread {
                grid,
                requested,
                position,
            };
            assert_eq!(
                found as usize,
                expected(&thread),
                "{attribute} of {position:?} in {grid:?} by {threadgroup:?}"
            );
        }
    }
}

/// One attribute of three components.
fn check_triple(attribute: &str, expected: impl Fn(&Thread) -> [usize; 3]) {
    let number = format!("{attribute}.x + 100 * {attribute}.y + 10000 * {attribute}.z");
    check(&number, |thread| {
        let [x, y, z] = expected(thread);
        x + 100 * y + 10000 * z
    });
}

fn product(extents: [usize; 3]) -> usize {
    extents.iter().product()
}

#[test]
fn positions() {
    check_triple("thread_position_in_grid", |t| t.position);
    check_triple("thread_position_in_threadgroup", Thread::local);
    check_triple("threadgroup_position_in_grid", Thread::group);
    check_triple("grid_origin", |_| [0; 3]);
}

#[test]
fn sizes() {
    check_triple("threads_per_grid", |t| t.grid);
    check_triple("grid_size", |t| t.grid);
    check_triple("threads_per_threadgroup", Thread::size);
    check_triple("dispatch_threads_per_threadgroup", |t| t.requested);
    check_triple("threadgroups_per_grid", |t| {
        [0, 1, 2].map(|a| t.grid[a].div_ceil(t.requested[a]))
    });
}

#[test]
fn indices() {
    check("thread_index_in_threadgroup", Thread::index);
    check("thread_index_in_simdgroup", |t| t.index() % 32);
    check("simdgroup_index_in_threadgroup", |t| t.index() / 32);
    check("thread_index_in_quadgroup", |t| t.index() % 4);
    check("quadgroup_index_in_threadgroup", |t| t.index() / 4);
}

#[test]
fn counts() {
    check("simdgroups_per_threadgroup", |t| {
        product(t.size()).div_ceil(32)
    });
    check("quadgroups_per_threadgroup", |t| {
        product(t.size()).div_ceil(4)
    });
    check("dispatch_simdgroups_per_threadgroup", |t| {
        product(t.requested).div_ceil(32)
    });
    check("dispatch_quadgroups_per_threadgroup", |t| {
        product(t.requested).div_ceil(4)
    });
    check("thread_execution_width", |_| 32);
    check("threads_per_simdgroup", |_| 32);
}
