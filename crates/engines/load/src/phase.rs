//! Describes one phase of a plan, resolved: its parallel loads, and when they stop.

use plimsoll_measure::duration::Span;
use plimsoll_measure::metric::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals;
use crate::fault::{self, Planned, Stretch};
use crate::retry::Retry;
use crate::stop::{self, Stop};

mod load;

pub use load::{Load, Timing};

/// How long an unreachable server is waited for when the scenario does not say.
pub const UNREACHABLE_FOR: Span = Span::from_secs(10);
/// How long operations that are overdue at the end of a phase may still be sent.
pub const DRAIN: Span = Span::from_secs(30);

/// What happens to an operation that is overdue, as typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Overdue {
    /// It is sent as soon as a connection is free.
    #[default]
    Send,
    /// It is given up after this long, counted, and counts against every objective.
    Skip {
        /// How long it may be overdue.
        after: Span,
    },
}

/// Whether operations make documents, of which a phase may send a limited number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Documents {
    /// They work on documents that are there.
    #[default]
    Used,
    /// They send new ones.
    Made,
}

/// Parallel loads.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Its index in the plan, if it has one; the engine does not use it.
    pub key: Option<usize>,
    /// At least one.
    pub loads: Vec<Load>,
    /// When it ends.
    pub stop: Stop,
    /// How long overdue operations of a load may be sent after its end, if the load does not set it.
    pub drain: Span,
    /// After how long without any connection the phase ends.
    pub unreachable_for: Span,
    /// Seed of arrivals, mix and faults.
    pub seed: u64,
    /// Its faults.
    pub faults: Vec<Planned>,
    /// Whether a failed operation is sent again.
    pub retry: Retry,
}

/// Why a phase is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// It has no load.
    #[error("a phase without a load: name at least one under `load`")]
    NoLoad,
    /// A load's arrivals are out of bounds.
    #[error("load.{load}.arrivals: {error}")]
    Arrivals {
        /// The load.
        load: String,
        /// The reason.
        error: arrivals::Error,
    },
    /// The weights are invalid.
    #[error("load.{0}: every weight must be a number over 0")]
    Weights(String),
    /// Shares of time for scheduled arrivals.
    #[error(
        "load.{0}.mix_by: time is shared where the next operation waits for the last one; give closed arrivals, or mix_by: \
         count"
    )]
    TimeShares(String),
    /// Documents are limited, but no load makes any.
    #[error(
        "stop.documents: no load of this phase inserts any, so it would not end; stop by duration or operations"
    )]
    NoDocuments,
    /// Documents are limited by a load instead of the phase.
    #[error(
        "load.{0}.stop.documents: documents are counted for all loads together; say it under the phase's `stop`"
    )]
    LoadDocuments(String),
    /// A load begins after the end of the phase.
    #[error("load.{load}.start: it begins at {start}, and the phase ends at {end}")]
    TooLate {
        /// The load.
        load: String,
        /// When it would begin.
        start: Span,
        /// When the phase ends.
        end: Span,
    },
    /// A load's limits are invalid.
    #[error("load.{load}.stop: {error}")]
    LoadStop {
        /// The load.
        load: String,
        /// The reason.
        error: stop::Error,
    },
    /// A key that is invalid for closed arrivals.
    #[error(
        "load.{0}.rate_floor: closed arrivals have no rate to reach; give open arrivals, or leave it out"
    )]
    NothingToReach(String),
    /// A key that is invalid for open arrivals.
    #[error("load.{0}.{1}: it is for closed arrivals, whose writers wait for each answer")]
    ClosedOnly(String, &'static str),
    /// The pause's bounds are in the wrong order.
    #[error("load.{0}.think: the shortest pause is longer than the longest")]
    Think(String),
    /// The share or the window is invalid.
    #[error(
        "load.{0}.rate_floor: share is over 0 and up to 1, and `for` from 1s to 1h, for example {{share: 0.99, for: 10s}}"
    )]
    RateFloor(String),
    /// The faults are invalid.
    #[error("faults: {0}")]
    Faults(#[from] fault::Error),
    /// The phase has no end.
    #[error("stop: {0}")]
    Stop(#[from] stop::Error),
}

impl Phase {
    /// Checks every number before anything is sent; returns the timeline of the faults.
    ///
    /// # Errors
    /// The first that is out of bounds, with its place.
    pub fn check(&self) -> Result<Vec<Stretch>, Error> {
        if self.loads.is_empty() {
            return Err(Error::NoLoad);
        }
        if self.stop == Stop::default() && self.loads.iter().all(|load| load.timing.stop != Stop::default()) {
            // Each load ends on its own, and the phase with the last of them.
        } else {
            self.stop.check()?;
        }
        let makes = self.loads.iter().any(|load| load.documents == Documents::Made);
        if self.stop.documents.is_some() && !makes {
            return Err(Error::NoDocuments);
        }
        self.loads.iter().try_for_each(|load| load.check(self))?;
        Ok(fault::timeline(&self.faults, self.stop.duration, self.seed)?)
    }
}

impl Phase {
    /// The subjects of all operations of all loads: what a metric can select.
    ///
    /// `names` are the plan's operations.
    pub fn subjects<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = Subject<'a>> {
        let of = |load: &'a Load| {
            load.mix.iter().map(|(operation, _)| load.subject(&self.name, names, *operation))
        };
        self.loads.iter().flat_map(of)
    }
}

#[cfg(test)]
mod tests;
