//! Causal attention over a cache of keys and values, rotary embedding included.

mod head;
mod problem;
mod rotary;

pub use problem::Problem;
pub use rotary::Rotary;

use std::cell::RefCell;

use crate::float::SharedFloats;
use crate::simd::layout::LANES;
use crate::{Error, Execution, Floats, FloatsMut, Level, simd, threads};
use head::Head;
use rotary::Turns;

/// Tokens of one head that a thread takes at a time.
const TOKENS: usize = 16;

/// What a new token sees of a cache, and what it adds to it.
///
/// * `queries`: `[tokens, heads, head_dim]`; `keys`, `values`: `[tokens, kv_heads, head_dim]`; none
///   of them rotated yet.
/// * `held_keys`, `held_values`: `[kv_heads, capacity, head_dim]`. The first `problem.held` tokens
///   of each head are read; the new ones, keys rotated, are written behind them.
/// * `mixed`: `[tokens, heads, head_dim]`: each query's mix of the values at its own position and
///   before, by the softmax of `scale * query . key`.
///
/// All have one element type. Arithmetic is `f32`: what is held is rounded once, and so is the
/// result. A token's result depends neither on how many others come with it nor on threads.
///
/// # Errors
///
/// [`Error::Empty`], [`Error::Heads`], [`Error::Rotated`] and [`Error::Capacity`] for extents that
/// contradict each other, [`Error::Length`] and [`Error::ElementType`] for arrays that do not fit.
/// Nothing is written then.
pub fn attend(
    problem: &Problem,
    rotary: &Rotary,
    scale: f32,
    fresh: [Floats<'_>; 3],
    mut held_keys: FloatsMut<'_>,
    mut held_values: FloatsMut<'_>,
    mut mixed: FloatsMut<'_>,
) -> Result<(), Error> {
    problem.check(rotary)?;
    problem.check_operands(fresh, [&held_keys, &held_values, &mixed])?;
    if problem.tokens == 0 {
        return Ok(());
    }
    let [queries, keys, values] = fresh;
    let turns = rotary.turns(problem.held, problem.tokens);
    append(problem, keys, Some((rotary, &turns)), &mut held_keys);
    append(problem, values, None, &mut held_values);
    let step = Step {
        problem,
        rotary,
        turns: &turns,
        scale,
        queries,
        keys: held_keys.as_floats(),
        values: held_values.as_floats(),
        mixed: mixed.shared(),
    };
    let blocks = problem.tokens.div_ceil(TOKENS);
    let seen = problem.held + problem.tokens.div_ceil(2);
    let effort = (2 * problem.tokens * problem.heads * problem.head_dim).saturating_mul(seen);
    threads::share(
        blocks * problem.heads,
        Execution::default().threads,
        effort,
        // The last tokens see the most: they come first, so that threads finish together.
        &|part| step.block(part % problem.heads, blocks - 1 - part / problem.heads),
    );
    Ok(())
}

/// Writes new tokens behind those that are held.
fn append(
    problem: &Problem,
    fresh: Floats<'_>,
    rotation: Option<(&Rotary, &Turns)>,
    held: &mut FloatsMut<'_>,
) {
    let width = problem.head_dim;
    let mut row = vec![0.0; width];
    let held = held.shared();
    for token in 0..problem.tokens {
        for head in 0..problem.kv_heads {
            fresh.widen_into((token * problem.kv_heads + head) * width, &mut row);
            if let Some((rotary, turns)) = rotation {
                rotary.rotate(&mut row, turns, token);
            }
            let at = (head * problem.capacity + problem.held + token) * width;
            // SAFETY: the row lies within the cache, which this thread alone has borrowed.
            unsafe { held.write(at, &row) };
        }
    }
}

/// A step whose keys and values are in the cache.
struct Step<'a> {
    problem: &'a Problem,
    rotary: &'a Rotary,
    turns: &'a Turns,
    scale: f32,
    queries: Floats<'a>,
    keys: Floats<'a>,
    values: Floats<'a>,
    mixed: SharedFloats,
}

/// A thread's buffers, kept to save their allocation.
#[derive(Default)]
struct Room {
    keys: Vec<f32>,
    values: Vec<f32>,
    scores: Vec<f32>,
    query: Vec<f32>,
    mixed: Vec<f32>,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

impl Step<'_> {
    /// Block `block` of the tokens, for one head of the queries.
    fn block(&self, head: usize, block: usize) {
        let problem = self.problem;
        let tokens = block * TOKENS..problem.tokens.min((block + 1) * TOKENS);
        let kv_head = head / (problem.heads / problem.kv_heads);
        let seen = problem.held + tokens.end;
        let width = problem.head_dim;
        let padded = width.next_multiple_of(LANES);
        ROOM.with_borrow_mut(|room| {
            let keys = self.rows(self.keys, kv_head, seen, &mut room.keys);
            let values = self.rows(self.values, kv_head, seen, &mut room.values);
            room.scores.resize(seen, 0.0);
            room.query.clear();
            room.query.resize(padded, 0.0);
            room.mixed.resize(padded, 0.0);
            for token in tokens {
                let at = (token * problem.heads + head) * width;
                let query = &mut room.query[..width];
                self.queries.widen_into(at, query);
                self.rotary.rotate(query, self.turns, token);
                for value in query {
                    *value *= self.scale;
                }
                let mixing = Head {
                    query: &room.query,
                    keys,
                    values,
                    scores: &mut room.scores[..=problem.held + token],
                    mixed: &mut room.mixed,
                };
                simd::enter(Level::best(), mixing);
                // SAFETY: each head of each token belongs to one block.
                unsafe { self.mixed.write(at, &room.mixed[..width]) };
            }
        });
    }

    /// The first `count` rows of a head of the cache as the kernel reads them: in place where they
    /// are floats of a padded width, else widened into `room`, with zeros behind each.
    fn rows<'b>(
        &'b self,
        held: Floats<'b>,
        head: usize,
        count: usize,
        room: &'b mut Vec<f32>,
    ) -> &'b [f32] {
        let width = self.problem.head_dim;
        let first = head * self.problem.capacity * width;
        let padded = width.next_multiple_of(LANES);
        if let Floats::F32(held) = held
            && padded == width
        {
            return &held[first..first + count * width];
        }
        room.clear();
        room.resize(count * padded, 0.0);
        for (row, padded) in room.chunks_exact_mut(padded).enumerate() {
            held.widen_into(first + row * width, &mut padded[..width]);
        }
        room
    }
}
