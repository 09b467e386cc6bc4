//! Sharing out the parts of one computation.
//!
//! The calling thread takes parts like every other; helpers join when they can. A call ends when
//! every part is done and every helper that had joined has left: one that the system has not yet
//! run is not waited for, so that a busy core costs its own share and nothing more.
//!
//! Helpers are started once and stay. After a job they look out for the next one for a short
//! while, since products tend to follow each other, and then sleep. [`Pace`] decides whether a
//! job is worth waking them for, and whether to leave them out because others need the cores.

use std::cell::UnsafeCell;
use std::hint;
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::thread::{self, Thread};
use std::time::Instant;

use crate::execution::cores;

mod pace;

use pace::{LOOKOUT, Pace};

/// Effort, in multiply-adds, below which a job stays on its thread: passing a part to a helper
/// that is looking out costs about a microsecond, in which a core does some fifty thousand.
const ALONE_BELOW: usize = 400_000;

/// The bit of [`Pool::state`] that says that helpers may join; those below it count who has.
const OPEN: u32 = 1 << 31;

/// What a job is: a body to be called once for each part.
#[derive(Clone, Copy)]
struct Job {
    body: *const (dyn Fn(usize) + Sync),
    parts: usize,
}

/// Helpers, and the job they share with the caller.
struct Pool {
    /// Held by the caller whose job is on.
    caller: Mutex<Pace>,
    /// Whether the job is open to helpers, and how many are in it.
    state: AtomicU32,
    /// How many more may join.
    places: AtomicUsize,
    /// Goes up with each job.
    epoch: AtomicUsize,
    /// The next part to be taken.
    next: AtomicUsize,
    /// Whether a part panicked on a helper.
    panicked: AtomicBool,
    job: UnsafeCell<Option<Job>>,
    helpers: OnceLock<Vec<Helper>>,
}

/// A helper as callers see it.
struct Helper {
    thread: Thread,
    asleep: &'static AtomicBool,
}

// SAFETY: `job` is written only by the holder of `caller` while the job is closed and nobody is in
// it, and read only by threads that joined while it was open; `state` orders the two. The body
// that it points at may be called from any thread.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

/// Calls `body` once for each of `0 .. parts`, on up to `threads` threads.
///
/// `effort` is about how many multiply-adds all parts take together. A call from inside `body`,
/// or while another thread's job is on, runs on its own thread.
///
/// # Panics
///
/// If `body` does.
pub(crate) fn share(
    parts: usize,
    threads: NonZeroUsize,
    effort: usize,
    body: &(dyn Fn(usize) + Sync),
) {
    let alone = parts < 2 || threads.get() < 2 || effort < ALONE_BELOW || cores().get() < 2;
    if alone || !pool().run(parts, threads.get() - 1, effort, body) {
        (0..parts).for_each(body);
    }
}

/// The process's pool, with its helpers running.
fn pool() -> &'static Pool {
    static POOL: Pool = Pool {
        caller: Mutex::new(Pace::new()),
        state: AtomicU32::new(0),
        places: AtomicUsize::new(0),
        epoch: AtomicUsize::new(0),
        next: AtomicUsize::new(0),
        panicked: AtomicBool::new(false),
        job: UnsafeCell::new(None),
        helpers: OnceLock::new(),
    };
    POOL.helpers.get_or_init(|| {
        (1..cores().get())
            .filter_map(|_| start_helper(&POOL))
            .collect()
    });
    &POOL
}

/// Starts one helper; none if the system refuses another thread.
fn start_helper(pool: &'static Pool) -> Option<Helper> {
    let asleep: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let builder = thread::Builder::new().name("mlx-kernels-cpu".to_owned());
    let handle = builder.spawn(move || pool.help(asleep)).ok()?;
    Some(Helper {
        thread: handle.thread().clone(),
        asleep,
    })
}

impl Pool {
    /// Runs a job with up to `helpers` helpers; false, with nothing done, if another is on or
    /// helpers are better left out.
    fn run(
        &self,
        parts: usize,
        helpers: usize,
        effort: usize,
        body: &(dyn Fn(usize) + Sync),
    ) -> bool {
        let mut pace = match self.caller.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let start = Instant::now();
        if pace.is_pausing(start) {
            return false;
        }
        // SAFETY: only the lifetime changes. `Closing` ends the job before this function returns
        // or unwinds, and nobody reaches `body` after that.
        let body: *const (dyn Fn(usize) + Sync) = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(body)
        };
        let job = Job { body, parts };
        // SAFETY: this thread holds `caller`, and the last job was closed and left.
        unsafe { *self.job.get() = Some(job) };
        self.next.store(0, Ordering::Relaxed);
        self.places.store(helpers, Ordering::Relaxed);
        self.panicked.store(false, Ordering::Relaxed);
        let closing = Closing(self);
        self.state.store(OPEN, Ordering::Release);
        self.epoch.fetch_add(1, Ordering::SeqCst);
        if pace.is_worth_waking(start, effort) {
            for helper in self.helpers.get().into_iter().flatten().take(helpers) {
                if helper.asleep.swap(false, Ordering::SeqCst) {
                    helper.thread.unpark();
                }
            }
        }
        self.work(job);
        let done = Instant::now();
        drop(closing);
        pace.finished(done, Instant::now());
        assert!(
            !self.panicked.load(Ordering::Relaxed),
            "a part of a shared computation panicked"
        );
        true
    }

    /// Takes parts until there are none.
    fn work(&self, job: Job) {
        // SAFETY: the job is open or this thread is in it, so its caller still holds the body.
        let body = unsafe { &*job.body };
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= job.parts {
                return;
            }
            body(part);
        }
    }

    /// A helper's life.
    fn help(&self, asleep: &AtomicBool) {
        let mut seen = 0;
        loop {
            seen = self.await_job(seen, asleep);
            if !self.join() {
                continue;
            }
            // SAFETY: joining an open job makes its description readable until this helper leaves.
            let job = unsafe { *self.job.get() };
            if let Some(job) = job
                && panic::catch_unwind(AssertUnwindSafe(|| self.work(job))).is_err()
            {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.state.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits until the epoch is no longer `seen`; gives the new one.
    fn await_job(&self, seen: usize, asleep: &AtomicBool) -> usize {
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                let epoch = self.epoch.load(Ordering::Acquire);
                if epoch != seen {
                    return epoch;
                }
                hint::spin_loop();
            }
            if start.elapsed() > LOOKOUT {
                break;
            }
        }
        loop {
            asleep.store(true, Ordering::SeqCst);
            let epoch = self.epoch.load(Ordering::SeqCst);
            if epoch != seen && !self.is_over() {
                asleep.store(false, Ordering::SeqCst);
                return epoch;
            }
            thread::park();
        }
    }

    /// Whether the last job takes no more helpers.
    fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) & OPEN == 0
    }

    /// Joins the job if it is open and has a place.
    fn join(&self) -> bool {
        let open = |state: u32| (state & OPEN != 0).then_some(state + 1);
        if self
            .state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, open)
            .is_err()
        {
            return false;
        }
        let taken = |places: usize| places.checked_sub(1);
        if self
            .places
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken)
            .is_err()
        {
            self.state.fetch_sub(1, Ordering::Release);
            return false;
        }
        true
    }
}

/// Ends a job when dropped: nobody joins any more, and those inside are waited for.
struct Closing<'a>(&'a Pool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let pool = self.0;
        // Parts left over by a panic here are not begun any more.
        pool.next.fetch_max(usize::MAX / 2, Ordering::Relaxed);
        pool.state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut spins = 0_u32;
        while pool.state.load(Ordering::Acquire) != 0 {
            spins += 1;
            if spins < 4096 {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Effort that is worth every helper.
    const LARGE: usize = usize::MAX;

    /// Runs `parts` parts on `threads` threads and counts how often each was done.
    fn counts(parts: usize, threads: usize, effort: usize) -> Vec<usize> {
        let counts: Vec<_> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
        let threads = NonZeroUsize::new(threads).expect("at least one thread");
        share(parts, threads, effort, &|part| {
            counts[part].fetch_add(1, Ordering::Relaxed);
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_part_is_done_once() {
        for effort in [0, ALONE_BELOW, LARGE] {
            for parts in [0, 1, 2, 3, 100] {
                for threads in [1, 2, 64] {
                    assert_eq!(counts(parts, threads, effort), vec![1; parts]);
                }
            }
        }
    }

    #[test]
    fn jobs_follow_each_other_and_overlap() {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert_eq!(counts(7, 8, LARGE), [1; 7]);
                    }
                });
            }
        });
    }

    #[test]
    fn a_job_inside_a_job_is_done() {
        let total = AtomicUsize::new(0);
        share(4, cores(), LARGE, &|_| {
            total.fetch_add(counts(5, 8, LARGE).iter().sum(), Ordering::Relaxed);
        });
        assert_eq!(total.into_inner(), 20);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let result = panic::catch_unwind(|| {
            share(64, cores(), LARGE, &|part| {
                assert!(part != 33, "part 33 fails");
            });
        });
        assert!(result.is_err());
        assert_eq!(counts(16, 8, LARGE), [1; 16]);
    }
}
