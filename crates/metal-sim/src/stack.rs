//! Stacks of simulated threads.

use std::io;

use corosensei::stack::{DefaultStack, Stack, StackPointer};

/// Distance between the starts of neighbouring threads' stacks, within a page.
const COLOUR_STEP: usize = 512;
const COLOURS: usize = 8;

/// A stack whose start within its page depends on the thread. Were all stacks to start at the same
/// place of a page, the live frames of 32 lanes, which run in turn, would compete for the same few
/// sets of the first-level cache.
pub struct ThreadStack {
    memory: DefaultStack,
    base: StackPointer,
}

impl ThreadStack {
    /// A stack of at least `bytes` for the `index`-th thread.
    pub fn new(bytes: usize, index: usize) -> io::Result<Self> {
        let memory = DefaultStack::new(bytes.saturating_add(COLOUR_STEP * COLOURS))?;
        let colour = index % COLOURS * COLOUR_STEP;
        let base = StackPointer::new(memory.base().get() - colour).unwrap_or_else(|| memory.base());
        Ok(Self { memory, base })
    }
}

// SAFETY: the memory has a guard page and at least the minimal size below `base`, which is aligned
// as the memory's own base is, since colours are multiples of 512.
unsafe impl Stack for ThreadStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }
}
