//! Times and attempts of a batch, noted by the engine.

use plimsoll_measure::clock::Instant;

use super::Batch;

/// Times and attempts of a batch, noted by the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) read_at: Instant,
    submitted_at: Instant,
    submitted: bool,
    attempts: u32,
    failures: Option<Failures>,
}

/// The transient failures of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failures {
    /// The time of the first failure.
    pub(crate) first_at: Instant,
    /// The number of failures.
    pub(crate) times: u32,
}

impl Batch {
    /// The time at which the source handed the batch over.
    pub const fn read_at(&self) -> Instant {
        self.progress.read_at
    }

    /// The number of earlier submissions to a sink.
    pub const fn attempts(&self) -> u32 {
        self.progress.attempts
    }

    /// The time of the last submission to a sink.
    pub const fn submitted_at(&self) -> Instant {
        self.progress.submitted_at
    }

    /// Whether a sink ever received the batch.
    pub(crate) const fn was_submitted(&self) -> bool {
        self.progress.submitted
    }

    pub(crate) const fn note_attempt(&mut self) {
        self.progress.attempts = self.progress.attempts.saturating_add(1);
    }

    pub(crate) const fn note_submitted(&mut self, now: Instant) {
        self.progress.submitted = true;
        self.progress.submitted_at = now;
    }

    /// Notes a transient failure and returns all of them. A split of the batch is not a failure.
    pub(crate) fn note_failed(&mut self, now: Instant) -> Failures {
        let failures = self.progress.failures.get_or_insert(Failures { first_at: now, times: 0 });
        failures.times = failures.times.saturating_add(1);
        *failures
    }
}
