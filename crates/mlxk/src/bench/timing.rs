//! Timing arms in turn.

use std::time::{Duration, Instant};

use mlx_rs::{Array, transforms};
use serde::Serialize;

/// A sample is at least this long, so that the clock and one evaluation's overhead do not count.
const SAMPLE: Duration = Duration::from_millis(4);
/// The most calls that one sample evaluates together.
const MOST_CALLS: u32 = 64;

/// The samples' extent and middle.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    /// Half of the samples are below.
    pub median: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
}

impl Spread {
    fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |index: usize| samples.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: at(samples.len() / 2),
            min: at(0),
            max: at(samples.len().saturating_sub(1)),
        }
    }
}

/// Microseconds a call of each arm: `rounds` samples, one of each arm a round, after a warm-up that
/// also settles how many calls make a sample.
pub fn alternate<A: Copy>(
    arms: &[A],
    rounds: usize,
    call: impl Fn(A, usize) -> anyhow::Result<Array>,
) -> anyhow::Result<Vec<Spread>> {
    let mut turn = 0;
    let mut sample = |arm: A, calls: u32| -> anyhow::Result<Duration> {
        let start = Instant::now();
        let results = (0..calls)
            .map(|_| {
                turn += 1;
                call(arm, turn)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        transforms::eval(&results)?;
        Ok(start.elapsed() / calls)
    };
    let mut calls = Vec::new();
    for &arm in arms {
        sample(arm, 1)?;
        let once = sample(arm, 1)?.max(Duration::from_nanos(1));
        let fitting = (SAMPLE.as_secs_f64() / once.as_secs_f64()).ceil() as u32;
        calls.push(fitting.clamp(1, MOST_CALLS));
        sample(arm, calls[calls.len() - 1])?;
    }
    let mut samples = vec![Vec::with_capacity(rounds); arms.len()];
    for _ in 0..rounds {
        for ((&arm, &calls), samples) in arms.iter().zip(&calls).zip(&mut samples) {
            samples.push(sample(arm, calls)?.as_secs_f64() * 1e6);
        }
    }
    Ok(samples.into_iter().map(Spread::of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_middle_and_the_extremes() {
        let spread = Spread::of(vec![3.0, 1.0, 9.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 3.0, 9.0));
    }

    #[test]
    fn arms_take_turns_over_rotating_operands() {
        let x = Array::from_f32(2.0);
        let seen = std::cell::RefCell::new(Vec::new());
        let spreads = alternate(&[10_usize, 20], 3, |arm, turn| {
            seen.borrow_mut().push((arm, turn));
            Ok(&x * 2.0)
        })
        .unwrap();
        assert_eq!(spreads.len(), 2);
        assert!(
            spreads
                .iter()
                .all(|s| s.min <= s.median && s.median <= s.max)
        );
        let seen = seen.into_inner();
        assert!(
            seen.windows(2).all(|pair| pair[1].1 == pair[0].1 + 1),
            "no operand is used twice"
        );
        assert!(seen.iter().any(|call| call.0 == 10) && seen.iter().any(|call| call.0 == 20));
    }
}
