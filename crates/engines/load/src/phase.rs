//! Describes one phase of a plan, resolved: its parallel loads, and its end.

use plimsoll_measure::duration::Span;
use plimsoll_measure::metric::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals;
use crate::due_second::Limit;
use crate::fault::{self, Planned, Stretch};
use crate::retry::Retry;
use crate::stop::{self, Stop};

mod load;

pub use load::{Load, Timing};

/// The default time limit for an unreachable server.
pub const UNREACHABLE_FOR: Span = Span::from_secs(10);
/// The time after a phase in which overdue operations may still be sent.
pub const DRAIN: Span = Span::from_secs(30);

/// The treatment of an overdue operation, as typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Overdue {
    /// The operation is sent as soon as a connection is free.
    #[default]
    Send,
    /// After this time the operation is given up and counted, and breaks every objective.
    Skip {
        /// The longest time that it may be overdue.
        after: Span,
    },
}

/// Whether operations make documents, which a phase may limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Documents {
    /// They use existing documents.
    #[default]
    Used,
    /// They make new documents.
    Made,
}

/// The life of a load's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// They are opened before the load and kept.
    #[default]
    Kept,
    /// Each operation opens one and closes it after its answer.
    PerOperation,
}

/// A phase: parallel loads and their end.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The name of the phase.
    pub name: String,
    /// The index in the plan, if any; the engine does not use it.
    pub key: Option<usize>,
    /// The loads, at least one.
    pub loads: Vec<Load>,
    /// The end of the phase.
    pub stop: Stop,
    /// The time after a load's end in which its overdue operations may be sent, unless the load sets it.
    pub drain: Span,
    /// The time without any connection after which the phase ends.
    pub unreachable_for: Span,
    /// The seed of arrivals, mix and faults.
    pub seed: u64,
    /// The planned faults.
    pub faults: Vec<Planned>,
    /// The retry of failed operations; none: as the target chooses.
    pub retry: Option<Retry>,
    /// The limits against which operations are counted by the second in which they are due; a search sets them.
    pub limits: Vec<Limit>,
}

impl Phase {
    /// A phase of one load, with the defaults of scenarios, seed 1 and without retries.
    pub fn new(load: Load, stop: Stop) -> Self {
        Self {
            name: "phase".to_owned(),
            key: None,
            loads: vec![load],
            stop,
            drain: DRAIN,
            unreachable_for: UNREACHABLE_FOR,
            seed: 1,
            faults: Vec::new(),
            retry: Some(Retry::None),
            limits: Vec::new(),
        }
    }
}

/// A phase is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The phase has no load.
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
    /// A weight is invalid.
    #[error("load.{0}: every weight must be a number over 0")]
    Weights(String),
    /// `mix_by: time` is given for scheduled arrivals.
    #[error(
        "load.{0}.mix_by: `time` needs arrivals that wait for answers; give closed arrivals, or mix_by: count"
    )]
    TimeShares(String),
    /// Documents are limited, but no load makes any.
    #[error(
        "stop.documents: no load inserts any, so the phase would not end; stop by duration or operations"
    )]
    NoDocuments,
    /// A load instead of the phase limits the documents.
    #[error(
        "load.{0}.stop.documents: documents count for all loads together; set the limit under the phase's `stop`"
    )]
    LoadDocuments(String),
    /// A load begins after the end of the phase.
    #[error("load.{load}.start: it begins at {start}, and the phase ends at {end}")]
    TooLate {
        /// The load.
        load: String,
        /// The start of the load.
        start: Span,
        /// The end of the phase.
        end: Span,
    },
    /// The limits of a load are invalid.
    #[error("load.{load}.stop: {error}")]
    LoadStop {
        /// The load.
        load: String,
        /// The reason.
        error: stop::Error,
    },
    /// `rate_floor` is given for closed arrivals.
    #[error("load.{0}.rate_floor: closed arrivals have no rate to reach; give open arrivals, or omit it")]
    NothingToReach(String),
    /// A key for closed arrivals is given for open ones.
    #[error("load.{0}.{1}: it is for closed arrivals, whose writers wait for each answer")]
    ClosedOnly(String, &'static str),
    /// The bounds of the pause are in the wrong order.
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
    /// Checks every number before an operation is sent; returns the timeline of the faults.
    ///
    /// # Errors
    /// The first number that is out of bounds, with its place.
    pub fn check(&self) -> Result<Vec<Stretch>, Error> {
        if self.loads.is_empty() {
            return Err(Error::NoLoad);
        }
        if self.stop == Stop::default() && self.loads.iter().all(|load| load.timing.stop != Stop::default()) {
            // Each load ends on its own, and the phase ends with the last load.
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
    /// The subjects of all operations of all loads, which metrics can select.
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
