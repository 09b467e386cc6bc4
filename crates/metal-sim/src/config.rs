//! How a simulator is set up.

use std::{env, num::NonZero, path::PathBuf, thread};

/// The order in which the threads of a group run between two synchronisations, and the simdgroups
/// between two barriers. A body without races gives the same results in every order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By ascending index.
    #[default]
    Forward,
    /// By descending index.
    Reverse,
    /// Another order at every synchronisation, determined by the seed.
    Shuffled(u64),
}

/// Settings of a [`Simulator`](crate::Simulator).
#[derive(Clone, Debug)]
pub struct Config {
    /// Command of the host's C++20 compiler, with leading arguments if need be.
    pub compiler: String,
    /// Where compiled kernels are kept. They are named by the hash of everything that makes them.
    pub cache_dir: PathBuf,
    /// Host threads that threadgroups are spread over.
    pub threads: usize,
    /// Stack of one simulated thread, in bytes.
    pub stack_bytes: usize,
    /// Threadgroup memory, in bytes. Metal guarantees 32768.
    pub threadgroup_bytes: usize,
    /// Order of the threads in a group.
    pub order: Order,
    /// Copy inputs and outputs between guard zones, so that reads past an end give poison (every
    /// bit set: NaN) and writes past an end, or to an input, are errors. Without it a launch uses
    /// the caller's memory in place where that is aligned to 16 bytes.
    pub strict: bool,
}

impl Default for Config {
    /// The compiler `$CXX`, else `c++`; the cache in `$XDG_CACHE_HOME/metal-sim`, else
    /// `$HOME/.cache/metal-sim`, else the folder for temporary files; all cores; strict.
    fn default() -> Self {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let cache = set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")))
            .unwrap_or_else(env::temp_dir);
        Self {
            compiler: set("CXX").unwrap_or_else(|| "c++".to_owned()),
            cache_dir: cache.join("metal-sim"),
            threads: thread::available_parallelism().map_or(1, NonZero::get),
            stack_bytes: 64 * 1024,
            threadgroup_bytes: 32 * 1024,
            order: Order::Forward,
            strict: true,
        }
    }
}
