//! What an attention step is: extents, checked once.

use super::Rotary;
use crate::error::{check_length, check_type};
use crate::{Error, Floats, FloatsMut};

/// Extents of one attention step over a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// New tokens.
    pub tokens: usize,
    /// Tokens that the cache holds already: the first new one has this position.
    pub held: usize,
    /// Tokens that the cache has room for.
    pub capacity: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` heads of queries that follow each
    /// other.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
}

impl Problem {
    /// Refuses extents that contradict each other.
    pub(super) fn check(&self, rotary: &Rotary) -> Result<(), Error> {
        for (argument, extent) in [("kv_heads", self.kv_heads), ("head_dim", self.head_dim)] {
            if extent == 0 {
                return Err(Error::Empty { argument });
            }
        }
        if self.heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(Error::Heads {
                heads: self.heads,
                kv_heads: self.kv_heads,
            });
        }
        if rotary.dimensions() > self.head_dim {
            return Err(Error::Rotated {
                got: rotary.dimensions(),
                head_dim: self.head_dim,
            });
        }
        match self.held.checked_add(self.tokens) {
            Some(needed) if needed <= self.capacity => Ok(()),
            needed => Err(Error::Capacity {
                capacity: self.capacity,
                needed: needed.unwrap_or(usize::MAX),
            }),
        }
    }

    /// Checks the operands' lengths and types.
    pub(super) fn check_operands(
        &self,
        [queries, keys, values]: [Floats<'_>; 3],
        [held_keys, held_values, mixed]: [&FloatsMut<'_>; 3],
    ) -> Result<(), Error> {
        let width = |heads: usize, tokens: usize| {
            heads
                .checked_mul(self.head_dim)
                .and_then(|width| width.checked_mul(tokens))
                .ok_or(Error::TooLarge {
                    argument: "heads",
                    rows: tokens,
                    columns: heads,
                })
        };
        let query = width(self.heads, self.tokens)?;
        let (fresh, room) = (
            width(self.kv_heads, self.tokens)?,
            width(self.kv_heads, self.capacity)?,
        );
        let float_type = queries.float_type();
        for (argument, len, expected, got) in [
            ("queries", queries.len(), query, float_type),
            ("keys", keys.len(), fresh, keys.float_type()),
            ("values", values.len(), fresh, values.float_type()),
            ("held_keys", held_keys.len(), room, held_keys.float_type()),
            (
                "held_values",
                held_values.len(),
                room,
                held_values.float_type(),
            ),
            ("mixed", mixed.len(), query, mixed.float_type()),
        ] {
            check_length(argument, len, expected)?;
            check_type(argument, got, "queries", float_type)?;
        }
        Ok(())
    }
}
