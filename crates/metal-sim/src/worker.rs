//! Runs one threadgroup after the other on one host thread: a coroutine for each thread of the
//! group.

mod rounds;

use std::{ffi::c_void, ptr};

use corosensei::{Coroutine, Yielder};

use crate::{
    abi::{Group, Lane, MAX_SHARED, SIMD_WIDTH, Scope, SimdGroup},
    arena::Arena,
    compile::Module,
    config::Order,
    fault::Fault,
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

// SAFETY: the buffers are read, and written at the body's own risk, by compiled code on several
// threads, as on a GPU.
unsafe impl Sync for Program<'_> {}

type Thread = Coroutine<(), (), (), ThreadStack>;

/// Memory that is reused from group to group.
pub struct Worker {
    stack_bytes: usize,
    stacks: Vec<ThreadStack>,
    threads: Vec<Option<Thread>>,
    lanes: Vec<Lane>,
    simdgroups: Vec<SimdGroup>,
    group: Box<Group>,
    arena: Arena,
    /// The module's variable that names the running lane on this host thread.
    current: *mut *mut Lane,
}

// SAFETY: the raw pointers in `lanes` and `group` lead into the worker's own heap memory, and no
// coroutine is alive between two groups.
unsafe impl Send for Worker {}

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
            arena: Arena::default(),
            current: ptr::null_mut(),
        }
    }

    /// Prepares for the groups of a launch, which must run on the same host thread.
    pub fn begin(&mut self, program: &Program<'_>) {
        // SAFETY: the function takes nothing and returns the address of a thread-local variable.
        self.current = unsafe { (program.module.current)() };
        let group = &mut *self.group;
        group.grid = program.geometry.grid;
        group.requested = program.geometry.threadgroup;
        group.groups = program.geometry.groups;
        self.arena.begin(group, program.threadgroup_bytes);
    }

    /// Runs the group with the given index to its end.
    pub fn run(&mut self, program: &Program<'_>, index: u64) -> Result<(), Fault> {
        let position = program.geometry.position(index);
        let size = program.geometry.size(position);
        self.group.position = position;
        self.group.size = size;
        self.arena.poison(&self.group);
        let mut schedule = Schedule::new(program.order, index);
        let result = self
            .start(program, size.iter().product::<u32>() as usize)
            .and_then(|()| self.run_threads(&mut schedule))
            .and_then(|()| self.arena.check(&self.group).map_err(Fault::Overrun));
        self.reset();
        result
    }

    /// Makes a coroutine for each thread of the group. None has run yet.
    fn start(&mut self, program: &Program<'_>, threads: usize) -> Result<(), Fault> {
        self.simdgroups
            .resize_with(threads.div_ceil(SIMD_WIDTH), SimdGroup::new);
        self.lanes.clear();
        let group: *mut Group = &raw mut *self.group;
        let simdgroups = self.simdgroups.as_mut_ptr();
        for index in 0..threads {
            self.lanes.push(Lane {
                group,
                simdgroup: simdgroups.wrapping_add(index / SIMD_WIDTH),
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
        let lanes = self.lanes.as_mut_ptr();
        let (entry, buffers) = (program.module.entry, program.buffers.as_ptr());
        for index in 0..threads {
            let stack = match self.stacks.pop() {
                Some(stack) => stack,
                None => ThreadStack::new(self.stack_bytes, index).map_err(Fault::Stack)?,
            };
            let lane = lanes.wrapping_add(index);
            self.threads
                .push(Some(Thread::with_stack(stack, move |yielder, ()| {
                    // SAFETY: no lane is touched otherwise while it runs; the buffers outlive the
                    // launch.
                    unsafe {
                        (*lane).coroutine = ptr::from_ref(yielder).cast();
                        entry(buffers, lane);
                    }
                })));
        }
        Ok(())
    }

    /// Abandons threads that have not returned.
    fn reset(&mut self) {
        for mut thread in self.threads.drain(..).flatten() {
            // SAFETY: the frames on the stack are those of compiled kernel code and of `suspend`,
            // none of which owns anything.
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
