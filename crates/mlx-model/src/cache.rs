//! Keys and values of the tokens seen so far.

use mlx_rs::ops::indexing::{TryIndexMutOp, TryIndexOp};
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
    layers: Vec<Option<Buffers>>,
    len: usize,
    limit: usize,
}

#[derive(Debug)]
struct Buffers {
    keys: Array,
    values: Array,
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

    /// Writes one layer's new keys and values behind the held ones, and returns all of them. The
    /// length moves only with [`Self::advance`], once every layer has been written.
    pub(crate) fn append(
        &mut self,
        layer: usize,
        keys: &Array,
        values: &Array,
    ) -> Result<(Array, Array)> {
        let start = self.len as i32;
        let end = start + keys.dim(2);
        let buffers = grown(self.layers[layer].take(), keys, values, end)?;
        let buffers = self.layers[layer].insert(buffers);
        buffers.keys.try_index_mut((.., .., start..end, ..), keys)?;
        buffers
            .values
            .try_index_mut((.., .., start..end, ..), values)?;
        let held = (.., .., ..end, ..);
        Ok((
            buffers.keys.try_index(held)?,
            buffers.values.try_index((.., .., ..end, ..))?,
        ))
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
            .flat_map(|buffers| [&buffers.keys, &buffers.values])
    }
}

/// Buffers of at least `tokens` capacity that hold what the old ones held.
fn grown(old: Option<Buffers>, keys: &Array, values: &Array, tokens: i32) -> Result<Buffers> {
    let capacity = old.as_ref().map_or(0, |buffers| buffers.keys.dim(2));
    match old {
        Some(buffers) if capacity >= tokens => Ok(buffers),
        old => {
            let added = (tokens as usize).next_multiple_of(GROWTH) as i32 - capacity;
            let extend = |old: Option<Array>, new: &Array| -> Result<Array> {
                let room = ops::zeros_dtype(&[1, new.dim(1), added, new.dim(3)], new.dtype())?;
                match old {
                    None => Ok(room),
                    Some(old) => Ok(ops::concatenate(&[old, room], 2)?),
                }
            };
            let (old_keys, old_values) = old.map_or((None, None), |buffers| {
                (Some(buffers.keys), Some(buffers.values))
            });
            Ok(Buffers {
                keys: extend(old_keys, keys)?,
                values: extend(old_values, values)?,
            })
        }
    }
}
