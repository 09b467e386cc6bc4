//! When helpers are worth their cost.

use std::time::{Duration, Instant};

/// How long a helper looks out for another job before it sleeps.
pub(super) const LOOKOUT: Duration = Duration::from_micros(200);

/// Effort, in multiply-adds, from which sleeping helpers are woken for a job by itself: waking one
/// takes some tens of microseconds, in which a core does some millions.
const WAKE_FROM: usize = 8_000_000;

/// A wait for helpers, after the caller has run out of parts, that only a busy core explains: a
/// part takes a small fraction of it.
const STALL: Duration = Duration::from_micros(500);

/// How long helpers are left out after a stall, at first and at most. It doubles while stalls go
/// on, so that they cost a few hundredths of the time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(8), Duration::from_millis(256));

/// Jobs without a stall after which the next pause is a short one again.
const CALM: u32 = 100;

/// What recent jobs say about the next one.
#[derive(Debug)]
pub(super) struct Pace {
    last_end: Option<Instant>,
    paused_until: Option<Instant>,
    pause: Duration,
    calm: u32,
}

impl Pace {
    /// Nothing known.
    pub(super) const fn new() -> Self {
        Self {
            last_end: None,
            paused_until: None,
            pause: PAUSES.0,
            calm: 0,
        }
    }

    /// Whether helpers are to be left out of a job that begins now.
    pub(super) fn is_pausing(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// Whether to wake sleeping helpers for a job that begins now: if it is large, or one of many
    /// that follow each other, since helpers will then stay awake.
    pub(super) fn is_worth_waking(&self, now: Instant, effort: usize) -> bool {
        let follows = self
            .last_end
            .is_some_and(|end| now.duration_since(end) < LOOKOUT);
        follows || effort >= WAKE_FROM
    }

    /// Takes note of a job whose caller ran out of parts at `done` and whose helpers had left at
    /// `end`.
    pub(super) fn finished(&mut self, done: Instant, end: Instant) {
        self.last_end = Some(end);
        if end.duration_since(done) >= STALL {
            self.paused_until = Some(end + self.pause);
            self.pause = (self.pause * 2).min(PAUSES.1);
            self.calm = 0;
        } else {
            self.calm += 1;
            if self.calm >= CALM {
                self.pause = PAUSES.0;
                self.calm = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(20);

    #[test]
    fn small_jobs_wake_helpers_only_in_a_row() {
        let start = Instant::now();
        let mut pace = Pace::new();
        assert!(!pace.is_worth_waking(start, WAKE_FROM - 1));
        assert!(pace.is_worth_waking(start, WAKE_FROM));
        pace.finished(start, start);
        assert!(pace.is_worth_waking(start + SOON, 1));
        assert!(!pace.is_worth_waking(start + LOOKOUT, 1));
    }

    #[test]
    fn pauses_grow_while_helpers_stall_and_shrink_when_they_do_not() {
        let mut pace = Pace::new();
        let mut now = Instant::now();
        for pause in [8, 16, 32, 64, 128, 256, 256] {
            assert!(!pace.is_pausing(now));
            pace.finished(now, now + STALL);
            now += STALL;
            let pause = Duration::from_millis(pause);
            assert!(pace.is_pausing(now) && pace.is_pausing(now + pause.saturating_sub(SOON)));
            now += pause;
        }
        for _ in 0..CALM {
            pace.finished(now, now + SOON);
        }
        pace.finished(now, now + STALL);
        now += STALL + PAUSES.0;
        assert!(!pace.is_pausing(now));
    }
}
