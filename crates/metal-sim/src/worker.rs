//! Runs one threadgroup after the other on one host thread: a coroutine for each thread of the group.

use std::{
    ffi::{CStr, c_void},
    io, ptr,
};

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::{
    Place,
    abi::{Group, Lane, MAX_SHARED, RED_ZONE, SIMD_WIDTH, Scope, SimdGroup},
    compile::Module,
    config::Order,
    geometry::{Geometry, thread_position},
    order::Schedule,
    stack::ThreadStack,
};

/// What a launch runs. The buffers outlive it.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    pub module: &'a Module,
    pub buffers: &'a [*mut c_void],
    pub geometry: Geometry,
    pub order: Order,
    /// Bytes of threadgroup memory a group may declare.
    pub threadgroup_bytes: usize,
}

// SAFETY: the buffers are read, and written at the body's own risk, by compiled code on several threads, as on a GPU.
unsafe impl Sync for Program<'_> {}

/// Why a threadgroup could not finish.
pub enum Fault {
    Divergence {
        first: Place,
        second: Place,
    },
    Missing {
        waiting: Place,
        missing: u32,
    },
    ThreadgroupMemory {
        place: Place,
        wanted: usize,
    },
    RedZone {
        slot: usize,
        byte: isize,
        bytes: usize,
    },
    Stack(io::Error),
}

type Thread = Coroutine<(), (), (), ThreadStack>;

/// Memory that is reused from group to group.
pub struct Worker {
    stack_bytes: usize,
    stacks: Vec<ThreadStack>,
    threads: Vec<Option<Thread>>,
    lanes: Vec<Lane>,
    simdgroups: Vec<SimdGroup>,
    group: Box<Group>,
    arena: Vec<ArenaLine>,
    /// The module's variable that names the running lane on this host thread.
    current: *mut *mut Lane,
}

// SAFETY: the raw pointers in `lanes` and `group` lead into the worker's own heap memory, and no coroutine is alive
// between two groups.
unsafe impl Send for Worker {}

/// Threadgroup variables start on lines of this size.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct ArenaLine([u8; 64]);

const POISON: u8 = 0xff;

/// Where a simdgroup stands when none of its lanes can run on by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// At a threadgroup barrier, with this lane there.
    Barrier(usize),
    Returned,
}

impl Worker {
    pub fn new(stack_bytes: usize) -> Self {
        let group = Group {
            grid: [0; 3],
            requested: [0; 3],
            groups: [0; 3],
            position: [0; 3],
            size: [0; 3],
            arena: ptr::null_mut(),
            arena_used: 0,
            declared: 0,
            limit: 0,
            wanted: 0,
            shared: [ptr::null_mut(); MAX_SHARED],
            shared_bytes: [0; MAX_SHARED],
        };
        Self {
            stack_bytes,
            stacks: Vec::new(),
            threads: Vec::new(),
            lanes: Vec::new(),
            simdgroups: Vec::new(),
            group: Box::new(group),
            arena: Vec::new(),
            current: ptr::null_mut(),
        }
    }

    /// Prepares for the groups of a launch, which must run on the same host thread.
    pub fn begin(&mut self, program: &Program<'_>) {
        // Each variable may waste a line on its alignment and takes a red zone.
        let bytes = program.threadgroup_bytes + MAX_SHARED * (64 + RED_ZONE);
        self.arena.clear();
        self.arena
            .resize(bytes.div_ceil(64), ArenaLine([POISON; 64]));
        // SAFETY: the function takes nothing and returns the address of a thread-local variable.
        self.current = unsafe { (program.module.current)() };
        let group = &mut *self.group;
        group.grid = program.geometry.grid;
        group.requested = program.geometry.threadgroup;
        group.groups = program.geometry.groups;
        group.arena = self.arena.as_mut_ptr().cast();
        group.arena_used = 0;
        group.declared = 0;
        group.limit = program.threadgroup_bytes as u64;
        group.shared = [ptr::null_mut(); MAX_SHARED];
    }

    /// Runs the group with the given index to its end.
    pub fn run(&mut self, program: &Program<'_>, index: u64) -> Result<(), Fault> {
        let position = program.geometry.position(index);
        let size = program.geometry.size(position);
        self.group.position = position;
        self.group.size = size;
        let lines = (self.group.arena_used as usize).div_ceil(64);
        self.arena[..lines].fill(ArenaLine([POISON; 64]));
        let mut schedule = Schedule::new(program.order, index);
        let result = self
            .start(program, size.iter().product::<u32>() as usize)
            .and_then(|()| self.run_threads(&mut schedule))
            .and_then(|()| self.check_red_zones());
        self.reset();
        result
    }

    /// Makes a coroutine for each thread of the group. None has run yet.
    fn start(&mut self, program: &Program<'_>, threads: usize) -> Result<(), Fault> {
        self.simdgroups
            .resize_with(threads.div_ceil(SIMD_WIDTH), SimdGroup::new);
        self.lanes.clear();
        let group: *mut Group = &raw mut *self.group;
        for index in 0..threads {
            self.lanes.push(Lane {
                group,
                simdgroup: &raw mut self.simdgroups[index / SIMD_WIDTH],
                suspend,
                coroutine: ptr::null(),
                operation: ptr::null(),
                file: ptr::null(),
                line: 0,
                scope: Scope::SIMD,
                position: thread_position(self.group.size, index as u32),
                index: index as u32,
            });
        }
        let (entry, buffers) = (program.module.entry, program.buffers.as_ptr());
        for index in 0..threads {
            let stack = match self.stacks.pop() {
                Some(stack) => stack,
                None => ThreadStack::new(self.stack_bytes, index).map_err(Fault::Stack)?,
            };
            let lane: *mut Lane = &raw mut self.lanes[index];
            self.threads
                .push(Some(Thread::with_stack(stack, move |yielder, ()| {
                    // SAFETY: `lanes` is not touched otherwise while coroutines run; the buffers live as long as the launch.
                    unsafe {
                        (*lane).coroutine = ptr::from_ref(yielder).cast();
                        entry(buffers, lane);
                    }
                })));
        }
        Ok(())
    }

    fn run_threads(&mut self, schedule: &mut Schedule) -> Result<(), Fault> {
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
            let Some(first) = state.iter().find_map(|s| {
                if let State::Barrier(lane) = *s {
                    Some(lane)
                } else {
                    None
                }
            }) else {
                return Ok(());
            };
            for (s, each) in state.iter_mut().enumerate() {
                self.all_present(first, s, active[s])?;
                if let State::Barrier(lane) = *each {
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

    /// Runs the lanes of a simdgroup from one operation among them to the next, until they wait for other simdgroups or
    /// have returned. `active` loses the lanes that return.
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
                // SAFETY: the address of this host thread's variable, found in `begin` for the module that runs.
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
                        place: self.place(first),
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
            waiting: self.place(waiting),
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

    /// Finds a threadgroup variable past whose end something was written.
    fn check_red_zones(&self) -> Result<(), Fault> {
        for slot in 0..MAX_SHARED {
            let start = self.group.shared[slot];
            if start.is_null() {
                continue;
            }
            let bytes = self.group.shared_bytes[slot] as usize;
            let offset = start as usize - self.arena.as_ptr() as usize;
            let zone_bytes = bytes.next_multiple_of(64) + RED_ZONE - bytes;
            let arena = self.arena.as_ptr().cast::<u8>();
            // SAFETY: shared() laid the variable and its zone out inside the arena, which has room for both.
            let zone = unsafe { std::slice::from_raw_parts(arena.add(offset + bytes), zone_bytes) };
            if let Some(at) = zone.iter().position(|&byte| byte != POISON) {
                return Err(Fault::RedZone {
                    slot,
                    byte: (bytes + at) as isize,
                    bytes,
                });
            }
        }
        Ok(())
    }

    /// Abandons threads that have not returned.
    fn reset(&mut self) {
        for mut thread in self.threads.drain(..).flatten() {
            // SAFETY: the frames on the stack are those of compiled kernel code and of `suspend`, none of which owns
            // anything.
            unsafe { thread.force_reset() };
            self.stacks.push(thread.into_stack());
        }
    }
}

/// Called by compiled code in a coroutine: back to the scheduler until it resumes this lane.
extern "C" fn suspend(lane: *mut Lane) {
    // SAFETY: the coroutine has put its yielder there, and it runs now.
    unsafe { &*(*lane).coroutine.cast::<Yielder<(), ()>>() }.suspend(());
}
