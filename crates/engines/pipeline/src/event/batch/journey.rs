//! What the engine notes of a batch on its way.

use plimsoll_measure::clock::Instant;

use super::Batch;

/// What the engine notes of a batch on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Journey {
    pub(super) read_at: Instant,
    submitted_at: Instant,
    submitted: bool,
    attempts: u32,
    failures: Option<Failures>,
}

/// The failures of a batch that may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failures {
    /// When the first was.
    pub(crate) first_at: Instant,
    /// How many there were.
    pub(crate) times: u32,
}

impl Batch {
    /// When it was handed over by the source.
    pub const fn read_at(&self) -> Instant {
        self.journey.read_at
    }

    /// How often a sink was given this batch before.
    pub const fn attempts(&self) -> u32 {
        self.journey.attempts
    }

    /// When it was last given to a sink.
    pub const fn submitted_at(&self) -> Instant {
        self.journey.submitted_at
    }

    /// Whether a sink was ever given this batch.
    pub(crate) const fn was_submitted(&self) -> bool {
        self.journey.submitted
    }

    pub(crate) const fn note_attempt(&mut self) {
        self.journey.attempts = self.journey.attempts.saturating_add(1);
    }

    pub(crate) const fn note_submitted(&mut self, now: Instant) {
        self.journey.submitted = true;
        self.journey.submitted_at = now;
    }

    /// Notes a failure that may pass; gives all of them. That it was cut in half to find what is wrong in it is none.
    pub(crate) fn note_failed(&mut self, now: Instant) -> Failures {
        let failures = self.journey.failures.get_or_insert(Failures { first_at: now, times: 0 });
        failures.times = failures.times.saturating_add(1);
        *failures
    }
}
