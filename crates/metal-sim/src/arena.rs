//! Threadgroup memory: poisoned at the start of every group, with a zone after each variable that
//! must stay poison.

use std::ptr;

use crate::{
    abi::{Group, MAX_SHARED, RED_ZONE},
    fault::Overrun,
};

/// Every bit set: NaN as a float, -1 as an integer.
const POISON: Line = Line([0xff; Line::BYTES]);

/// Variables start on lines of this size, which is also their alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; Line::BYTES]);

impl Line {
    const BYTES: usize = 64;
}

#[derive(Default)]
pub struct Arena {
    lines: Vec<Line>,
}

impl Arena {
    /// Makes room for `limit` bytes of variables, and lets `group` lay them out anew.
    pub fn begin(&mut self, group: &mut Group, limit: usize) {
        // Each variable may waste a line on its alignment and has its zone.
        let bytes = limit + MAX_SHARED * (Line::BYTES + RED_ZONE);
        self.lines.clear();
        self.lines.resize(bytes.div_ceil(Line::BYTES), POISON);
        group.arena = self.lines.as_mut_ptr().cast();
        group.arena_used = 0;
        group.declared = 0;
        group.limit = limit as u64;
        group.shared = [ptr::null_mut(); MAX_SHARED];
    }

    /// Poisons what the group before has used.
    pub fn poison(&mut self, group: &Group) {
        let used = (group.arena_used as usize).div_ceil(Line::BYTES);
        self.lines[..used].fill(POISON);
    }

    /// Finds a variable past whose end something was written.
    pub fn check(&self, group: &Group) -> Result<(), Overrun> {
        // SAFETY: the lines are plain bytes, contiguous, and borrowed as long as the slice.
        let arena = unsafe {
            std::slice::from_raw_parts(
                self.lines.as_ptr().cast::<u8>(),
                self.lines.len() * Line::BYTES,
            )
        };
        for (slot, &variable) in group
            .shared
            .iter()
            .enumerate()
            .filter(|(_, v)| !v.is_null())
        {
            let bytes = group.shared_bytes[slot] as usize;
            let start = variable.addr() - arena.as_ptr().addr();
            let zone =
                &arena[start + bytes..start + bytes.next_multiple_of(Line::BYTES) + RED_ZONE];
            if let Some(at) = zone.iter().position(|&byte| byte != POISON.0[0]) {
                return Err(Overrun {
                    slot,
                    byte: bytes + at,
                    bytes,
                });
            }
        }
        Ok(())
    }
}
