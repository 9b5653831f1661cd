//! Ends a phase: at the user's request, after the last document, or for a reason of the scenario.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// A request to stop, by the user or by the scenario, shared by all workers.
#[derive(Clone, Debug, Default)]
pub struct Control {
    stopped: Arc<AtomicBool>,
    early: Arc<Early>,
}

/// The scenario's reason to end the run, if it has one.
#[derive(Debug, Default)]
struct Early {
    /// Checked before every operation, to avoid the lock.
    is_set: AtomicBool,
    reason: Mutex<Option<(Ended, String)>>,
}

impl Control {
    /// Creates a control that also obeys `flag`, which a signal handler may set.
    pub fn listening(flag: Arc<AtomicBool>) -> Self {
        Self { stopped: flag, early: Arc::default() }
    }

    /// Ends the phase as soon as the operations in flight have ended.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the user requested a stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends the phase for a reason of the scenario, as soon as the operations in flight have ended. The first
    /// reason stays.
    pub fn abort(&self, ended: Ended, reason: impl Into<String>) {
        self.reason().get_or_insert_with(|| (ended, reason.into()));
        self.early.is_set.store(true, Ordering::Release);
    }

    /// The scenario's reason for ending the run, if any.
    pub fn aborted(&self) -> Option<(Ended, String)> {
        self.reason().clone()
    }

    /// The reason why the phase must end now, if any.
    pub(super) fn asked(&self) -> Option<Ended> {
        if self.is_stopped() {
            return Some(Ended::Interrupted);
        }
        let is_set = self.early.is_set.load(Ordering::Acquire);
        is_set.then(|| self.reason().as_ref().map(|(ended, _)| *ended)).flatten()
    }

    fn reason(&self) -> MutexGuard<'_, Option<(Ended, String)>> {
        self.early.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the workers that still have documents of a limited phase to send.
#[derive(Debug, Default)]
pub struct Supply {
    suppliers: AtomicUsize,
    over: AtomicBool,
}

impl Supply {
    /// The supply for this many workers that make documents.
    pub const fn of(suppliers: usize) -> Self {
        Self { suppliers: AtomicUsize::new(suppliers), over: AtomicBool::new(false) }
    }

    /// The supply of a process that has no documents to send although its phase limits them: it is over from
    /// the start.
    pub const fn none() -> Self {
        Self { suppliers: AtomicUsize::new(0), over: AtomicBool::new(true) }
    }

    /// Whether every worker has sent the last of its documents.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Records that a worker has sent the last of its documents.
    pub(super) fn leave(&self) {
        if self.suppliers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.store(true, Ordering::Relaxed);
        }
    }
}

/// The reason why a phase ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The duration is over.
    #[default]
    Duration,
    /// All operations were sent.
    Operations,
    /// All documents were sent.
    Documents,
    /// The rate was not reached, and the scenario requires it.
    NotReached,
    /// A threshold was broken that ends the run.
    Threshold,
    /// The server was unreachable for too long.
    Unreachable,
    /// The user requested a stop.
    Interrupted,
}

impl Ended {
    /// Whether the phase ended early, so that no further phase begins.
    pub fn is_early(self) -> bool {
        self >= Self::NotReached
    }

    /// Whether the phase ended deliberately: its overdue operations then do not count as skipped.
    pub(super) const fn leaves_the_rest(self) -> bool {
        matches!(self, Self::Documents | Self::NotReached | Self::Threshold | Self::Interrupted)
    }

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Operations => "operations",
            Self::Documents => "documents",
            Self::NotReached => "not_reached",
            Self::Threshold => "threshold",
            Self::Unreachable => "unreachable",
            Self::Interrupted => "interrupted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_of_the_scenario_stays_and_the_users_stop_is_more_severe() {
        let control = Control::default();
        assert_eq!((control.asked(), control.aborted()), (None, None));
        control.abort(Ended::NotReached, "slow");
        control.abort(Ended::Threshold, "late");
        assert_eq!(control.asked(), Some(Ended::NotReached));
        assert_eq!(control.aborted(), Some((Ended::NotReached, "slow".to_owned())));
        assert!(!control.is_stopped());
        control.stop();
        assert_eq!(control.asked(), Some(Ended::Interrupted));
    }

    #[test]
    fn only_early_ends_are_early() {
        let early = [Ended::NotReached, Ended::Threshold, Ended::Unreachable, Ended::Interrupted];
        assert!(early.into_iter().all(Ended::is_early));
        assert!(![Ended::Duration, Ended::Operations, Ended::Documents].into_iter().any(Ended::is_early));
    }
}
