//! The Viterbi recursion over all states, written once over [`Lanes`].
//!
//! Costs are squared errors, minimised. Successive states share their `L - k` middle bits, the *overlap*; `best[j]` is
//! the least cost of a path whose next state has `j` as its upper bits. One step is
//!
//! ```text
//! best'[j] = min over m of (x - v(n))^2 + best[n >> k],   n = j + m * 2^(L-k),   m < 2^k
//! ```
//!
//! Only the `2^(L-k)` values of `best` are kept, for every position: neither the `2^L` path costs nor the choices are
//! stored. The way back recomputes the `2^k` candidates of one overlap per position, with the same f32 operations and
//! hence the same costs, and picks among them.
//!
//! Two arrangements keep the inner loop free of shuffles. The loop reads the values of the states in the order in
//! which they were laid out when the table was built.
//!
//! - *Wide* (`2^k` at least the register width): lanes run over `j`, which all share one `best[n >> k]`, a broadcast.
//! - *Narrow* (`k <= 3`): with `n = [m][mid][b]` in fields of `k`, `L - 2k` and `k` bits, lanes run over `mid`, and
//!   `best[n >> k]` is a plain load. The result `[b][mid]` is turned into `j = [mid][b]` by `k` rounds of zips, on
//!   `2^(L-k)` numbers and not on `2^L`.

use super::aligned::AlignedFloats;
use super::simd::Lanes;
use crate::{Format, codebook};

/// A cost above that of any path, for overlaps a path may not start from.
const BLOCKED: f32 = 1e30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrangement {
    Wide,
    Narrow,
    /// Wide with one lane: for codes too small for the registers.
    Scalar,
}

/// The values of the states of a format, laid out for registers of one width.
#[derive(Clone, Debug)]
pub(crate) struct Trellis {
    format: Format,
    arrangement: Arrangement,
    /// Value of each state.
    values: Vec<f32>,
    /// The same values in the order of the step's loop.
    ordered: AlignedFloats,
}

impl Trellis {
    pub(crate) fn new(format: Format, width: usize) -> Self {
        let values = codebook::values(format.state_bits());
        let arrangement = Self::arrangement(format, width);
        let ordered = match arrangement {
            Arrangement::Wide => wide_order(format, width, &values),
            Arrangement::Narrow => narrow_order(format, width, &values),
            Arrangement::Scalar => wide_order(format, 1, &values),
        };
        Self {
            format,
            arrangement,
            values,
            ordered: ordered.as_slice().into(),
        }
    }

    fn arrangement(format: Format, width: usize) -> Arrangement {
        let mids = format.overlaps() / format.symbols();
        if format.bits() <= 3 && mids >= width {
            Arrangement::Narrow
        } else if format.symbols() >= width && format.overlaps() >= width {
            Arrangement::Wide
        } else {
            Arrangement::Scalar
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// The value of each state.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }
}

fn wide_order(format: Format, width: usize, values: &[f32]) -> Vec<f32> {
    let mut ordered = Vec::with_capacity(values.len());
    for j in (0..format.overlaps()).step_by(width) {
        for m in 0..format.symbols() {
            let first = j + m * format.overlaps();
            ordered.extend_from_slice(&values[first..first + width]);
        }
    }
    ordered
}

fn narrow_order(format: Format, width: usize, values: &[f32]) -> Vec<f32> {
    let (symbols, overlaps) = (format.symbols(), format.overlaps());
    let mut ordered = Vec::with_capacity(values.len());
    for mid in (0..overlaps / symbols).step_by(width) {
        for b in 0..symbols {
            for m in 0..symbols {
                ordered
                    .extend((mid..mid + width).map(|mid| values[m * overlaps + mid * symbols + b]));
            }
        }
    }
    ordered
}

/// The costs of one pass: `best` before each position and after the last.
#[derive(Debug, Default)]
pub(crate) struct History(AlignedFloats);

/// Where a pass may start.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    Anywhere,
    /// Only in states with these upper bits.
    Overlap(usize),
}

/// Runs the recursion over `samples` and leaves the costs in `history`.
///
/// # Safety
/// The machine must have the instruction set of `V`, and `trellis` must have been built for its width.
#[inline(always)]
pub(crate) unsafe fn forward<V: Lanes>(
    trellis: &Trellis,
    samples: &[f32],
    start: Start,
    history: &mut History,
) {
    let overlaps = trellis.format.overlaps();
    let History(costs) = history;
    costs.grow((samples.len() + 1) * overlaps);
    match start {
        Start::Anywhere => costs[..overlaps].fill(0.0),
        Start::Overlap(only) => {
            costs[..overlaps].fill(BLOCKED);
            costs[only] = 0.0;
        }
    }
    for (t, &sample) in samples.iter().enumerate() {
        let (before, after) = costs[t * overlaps..].split_at_mut(overlaps);
        let after = &mut after[..overlaps];
        // SAFETY: `before` and `after` hold one cost per overlap and `ordered` one value per state, in the order of
        // the arrangement for this width; the instruction set is the caller's promise.
        unsafe {
            match (trellis.arrangement, trellis.format.bits()) {
                (Arrangement::Narrow, 1) => step_narrow::<V, 2>(trellis, sample, before, after),
                (Arrangement::Narrow, 2) => step_narrow::<V, 4>(trellis, sample, before, after),
                (Arrangement::Narrow, _) => step_narrow::<V, 8>(trellis, sample, before, after),
                (Arrangement::Wide, _) => step_wide::<V>(trellis, sample, before, after),
                (Arrangement::Scalar, _) => step_wide::<f32>(trellis, sample, before, after),
            }
        }
    }
}

/// # Safety
/// As [`forward`]; `best` and `next` hold one cost per overlap, and there are at least two symbols.
#[inline(always)]
unsafe fn step_wide<V: Lanes>(trellis: &Trellis, sample: f32, best: &[f32], next: &mut [f32]) {
    let (bits, symbols, overlaps) = (
        trellis.format.bits(),
        trellis.format.symbols(),
        trellis.format.overlaps(),
    );
    // `n >> k` is `(j >> k) + m * stride`, or `(j + m J) >> k` where a symbol has more values than the overlap.
    let stride = overlaps >> bits;
    let mut values = trellis.ordered.as_ptr();
    // SAFETY: `values` advances by one register for each (j, m), `2^L` floats in all; `n >> k` is below the number of
    // overlaps because `n < 2^L`; `next` is written one register at each `j`.
    unsafe {
        let x = V::splat(sample);
        for j in (0..overlaps).step_by(V::WIDTH) {
            let mut prior = best.as_ptr().add(j >> bits);
            // Two chains of minima hide half of their latency; the minimum is exact in any order.
            let mut chains = [V::splat(f32::INFINITY); 2];
            for m in (0..symbols).step_by(2) {
                for (i, chain) in chains.iter_mut().enumerate() {
                    let off = x.sub(V::load(values));
                    if stride == 0 {
                        prior = best.as_ptr().add((j + (m + i) * overlaps) >> bits);
                    }
                    *chain = chain.min(off.mul_add(off, V::splat(*prior)));
                    prior = prior.wrapping_add(stride);
                    values = values.add(V::WIDTH);
                }
            }
            chains[0].min(chains[1]).store(next.as_mut_ptr().add(j));
        }
    }
}

/// # Safety
/// As [`forward`]; `best` and `next` hold one cost per overlap, `SYMBOLS = 2^k`, and the mid field fills a register.
#[inline(always)]
unsafe fn step_narrow<V: Lanes, const SYMBOLS: usize>(
    trellis: &Trellis,
    sample: f32,
    best: &[f32],
    next: &mut [f32],
) {
    let mids = trellis.format.overlaps() / SYMBOLS;
    let mut values = trellis.ordered.as_ptr();
    // SAFETY: `values` advances by one register for each (mid, b, m), `2^L` floats in all; `best` is read at
    // `[m][mid]` and `next` written at `[mid][b]`, both `SYMBOLS * mids` floats.
    unsafe {
        let x = V::splat(sample);
        for mid in (0..mids).step_by(V::WIDTH) {
            let priors: [V; SYMBOLS] =
                std::array::from_fn(|m| V::load(best.as_ptr().add(m * mids + mid)));
            let mut least = [x; SYMBOLS];
            for slot in &mut least {
                let mut cost = V::splat(f32::INFINITY);
                for prior in priors {
                    let off = x.sub(V::load(values));
                    cost = cost.min(off.mul_add(off, prior));
                    values = values.add(V::WIDTH);
                }
                *slot = cost;
            }
            // Each round moves the top bit of the register's number below the lane's.
            let mut rounds = SYMBOLS;
            while rounds > 1 {
                let halves = least;
                for i in 0..SYMBOLS / 2 {
                    (least[2 * i], least[2 * i + 1]) = halves[i].zip(halves[i + SYMBOLS / 2]);
                }
                rounds /= 2;
            }
            for (b, costs) in least.into_iter().enumerate() {
                costs.store(next.as_mut_ptr().add(mid * SYMBOLS + b * V::WIDTH));
            }
        }
    }
}

/// The overlap of least cost after `len` positions, the largest index among equals, and its cost.
#[inline(always)]
pub(crate) fn best_end(trellis: &Trellis, history: &History, len: usize) -> (usize, f32) {
    let overlaps = trellis.format.overlaps();
    let last = &history.0[len * overlaps..(len + 1) * overlaps];
    let mut end = 0;
    for (j, cost) in last.iter().enumerate() {
        if *cost <= last[end] {
            end = j;
        }
    }
    (end, last[end])
}

/// Walks back from the overlap `end` after the last sample to position `first`, writing the states of positions
/// `first..`; among predecessors of equal cost the largest is taken. Returns the overlap before position `first`.
#[inline(always)]
pub(crate) fn trace_back(
    trellis: &Trellis,
    history: &History,
    samples: &[f32],
    end: usize,
    first: usize,
    states: &mut [u16],
) -> usize {
    let (bits, overlaps) = (trellis.format.bits(), trellis.format.overlaps());
    let mut overlap = end;
    for t in (first..samples.len()).rev() {
        let best = &history.0[t * overlaps..(t + 1) * overlaps];
        let (sample, values) = (samples[t], &trellis.values[..]);
        let state = match bits {
            1 => predecessor::<2>(values, best, sample, overlap),
            2 => predecessor::<4>(values, best, sample, overlap),
            3 => predecessor::<8>(values, best, sample, overlap),
            4 => predecessor::<16>(values, best, sample, overlap),
            _ => predecessor_of_many(values, best, sample, overlap),
        };
        states[t - first] = state as u16;
        overlap = state >> bits;
    }
    overlap
}

/// The best of the `N = 2^k` states with the lower bits `overlap` to be in at a sample; the last among equals. Without
/// branches: which one it is cannot be predicted.
#[inline(always)]
fn predecessor<const N: usize>(values: &[f32], best: &[f32], sample: f32, overlap: usize) -> usize {
    let overlaps = best.len();
    let costs: [f32; N] = std::array::from_fn(|m| {
        let state = overlap + m * overlaps;
        let off = sample - values[state];
        off.mul_add(off, best[state / N])
    });
    let mut least = costs;
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            least[i] = if least[i + half] < least[i] {
                least[i + half]
            } else {
                least[i]
            };
        }
        half /= 2;
    }
    let mut chosen = 0;
    for (m, cost) in costs.iter().enumerate() {
        chosen = if *cost <= least[0] { m } else { chosen };
    }
    overlap + chosen * overlaps
}

/// As [`predecessor`], for widths of so many candidates that a new least one becomes rare.
#[inline(always)]
fn predecessor_of_many(values: &[f32], best: &[f32], sample: f32, overlap: usize) -> usize {
    let overlaps = best.len();
    let bits = (values.len() / overlaps).trailing_zeros();
    let (mut chosen, mut least) = (overlap, f32::INFINITY);
    for state in (overlap..values.len()).step_by(overlaps) {
        let off = sample - values[state];
        let cost = off.mul_add(off, best[state >> bits]);
        if cost <= least {
            (chosen, least) = (state, cost);
        }
    }
    chosen
}
