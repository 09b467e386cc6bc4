//! Runs cases under a context.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use mlx_kernels::{Backend, Context, with_context};
use mlx_rs::{Device, Stream, with_stream};

use super::{Case, Outcome};

/// Settings of a simulator that finds what a GPU would show by chance or not at all: accesses
/// outside of operands, and races, by running the threads of a group in another order at every
/// synchronisation.
pub fn simulator_config() -> metal_sim::Config {
    metal_sim::Config {
        strict: true,
        order: metal_sim::Order::Shuffled(1),
        ..metal_sim::Config::default()
    }
}

/// Runs every case and returns their outcomes, in order. `done` is called after each.
///
/// On the simulator, where compilers take most of the time, as many cases run at once as there are
/// cores; elsewhere one after the other.
pub fn run(cases: &[Case], context: &Context, done: &(dyn Fn() + Sync)) -> Vec<Outcome> {
    let context = Arc::new(context.clone());
    if context.backend() != Backend::Sim {
        return cases.iter().map(|case| one(case, &context, done)).collect();
    }
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![None; cases.len()]);
    let work = || {
        // A stream of its own: operations of one stream run one after the other.
        let stream = Stream::new_with_device(&Device::cpu());
        with_stream(&stream, || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= cases.len() {
                    break;
                }
                let outcome = one(&cases[index], &context, done);
                let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                outcomes[index] = Some(outcome);
            }
        });
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    outcomes.into_iter().flatten().collect()
}

fn one(case: &Case, context: &Arc<Context>, done: &(dyn Fn() + Sync)) -> Outcome {
    let start = Instant::now();
    let result = with_context(context, || case.check(context));
    done();
    Outcome {
        result,
        time: start.elapsed(),
    }
}
