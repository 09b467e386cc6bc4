//! Keys and values of the tokens seen so far.

use mlx_kernels::attention::Cache;
use mlx_rs::{Array, ops};

use crate::error::{ModelError, Result};

/// Tokens by which the buffers grow: rarely enough that copying them does not matter.
const GROWTH: usize = 256;

/// Keys and values of every layer, `[1, kv heads, capacity, head width]`, for one sequence.
///
/// Buffers grow in steps and are written in place, so that a token costs its own keys and values
/// and not a copy of all before it.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<Option<Cache>>,
    len: usize,
    limit: usize,
}

impl KvCache {
    pub(crate) fn new(layers: usize, limit: usize) -> Self {
        Self {
            layers: (0..layers).map(|_| None).collect(),
            len: 0,
            limit,
        }
    }

    /// Tokens held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no tokens are held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets the tokens and keeps the buffers.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Fails if `tokens` more would exceed the model's context length.
    pub(crate) fn check_room(&self, tokens: usize) -> Result<()> {
        let found = self.len.saturating_add(tokens);
        if found > self.limit {
            return Err(ModelError::ContextLength {
                found,
                limit: self.limit,
            });
        }
        Ok(())
    }

    /// One layer's keys and values, with room for `keys`, `[1, tokens, kv heads, head width]`, behind
    /// the held ones. The length moves only with [`Self::advance`], once every layer has been written.
    pub(crate) fn with_room(&mut self, layer: usize, keys: &Array) -> Result<&mut Cache> {
        let end = self.len as i32 + keys.dim(1);
        let grown = grown(self.layers[layer].take(), keys, end)?;
        Ok(self.layers[layer].insert(grown))
    }

    /// Counts `tokens` as held.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.len += tokens;
    }

    /// Every buffer, to be evaluated together.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.layers
            .iter()
            .flatten()
            .flat_map(|cache| [&cache.keys, &cache.values])
    }
}

/// Buffers of at least `tokens` capacity, and for heads like those of `keys`, that hold what the old
/// ones held.
fn grown(old: Option<Cache>, keys: &Array, tokens: i32) -> Result<Cache> {
    let capacity = old.as_ref().map_or(0, |cache| cache.keys.dim(2));
    let old = match old {
        Some(old) if capacity >= tokens => return Ok(old),
        old => old,
    };
    let added = (tokens as usize).next_multiple_of(GROWTH) as i32 - capacity;
    let room = ops::zeros_dtype(&[1, keys.dim(2), added, keys.dim(3)], keys.dtype())?;
    Ok(match old {
        None => Cache {
            keys: room.clone(),
            values: room,
        },
        Some(Cache { keys, values }) => Cache {
            keys: ops::concatenate(&[keys, room.clone()], 2)?,
            values: ops::concatenate(&[values, room], 2)?,
        },
    })
}
