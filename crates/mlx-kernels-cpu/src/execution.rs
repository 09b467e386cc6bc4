//! How a kernel is to run: which instructions, how many threads.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use crate::{Error, Level};

/// Instructions and threads for one call.
///
/// The default is the machine's best level and one thread a core. Results do not depend on
/// `threads`; between levels they may differ in the last bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    /// The instructions to use.
    pub level: Level,
    /// The most threads to use, the calling one included. Fewer work where a shape is too small
    /// for more, or where the machine has fewer cores.
    pub threads: NonZeroUsize,
}

impl Default for Execution {
    fn default() -> Self {
        static BEST: OnceLock<Execution> = OnceLock::new();
        *BEST.get_or_init(|| Self {
            level: Level::best(),
            threads: cores(),
        })
    }
}

impl Execution {
    /// Refuses a level that this machine cannot run.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.level.is_available() {
            return Ok(());
        }
        Err(Error::Level {
            got: self.level,
            available: Level::available(),
        })
    }
}

/// The number of threads that the system would run at once. Asked for once: the answer takes the
/// system longer than a small product.
pub(crate) fn cores() -> NonZeroUsize {
    static CORES: OnceLock<NonZeroUsize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
}
