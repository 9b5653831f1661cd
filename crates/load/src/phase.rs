//! One phase of a plan, as meant: loads side by side, and when they stop.

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals::{self, Arrivals};
use crate::fault::{self, Planned, Stretch};
use crate::mix::By;
use crate::retry::Retry;
use crate::stop::{self, Stop};

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

/// One stream of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its name in the scenario.
    pub name: String,
    /// (operation, weight): indices into the plan's operations.
    pub mix: Vec<(usize, f64)>,
    /// What the weights are shares of.
    pub mix_by: By,
    /// When operations are due.
    pub arrivals: Arrivals,
    /// What happens to overdue ones.
    pub overdue: Overdue,
    /// Whether its operations make documents.
    pub documents: Documents,
}

/// Loads side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Which of the plan's phases it is, if it is one; the engine does not look at it.
    pub key: Option<usize>,
    /// At least one.
    pub loads: Vec<Load>,
    /// When it ends.
    pub stop: Stop,
    /// How long overdue operations may be sent after the end.
    pub drain: Span,
    /// After how long without any connection the phase ends.
    pub unreachable_for: Span,
    /// Seed of arrivals, mix and faults.
    pub seed: u64,
    /// What is done to the thing under load, and when.
    pub faults: Vec<Planned>,
    /// Whether an operation that failed is sent again.
    pub retry: Retry,
}

/// A phase that cannot be run.
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
        /// What is wrong.
        error: arrivals::Error,
    },
    /// Weights that make no mix.
    #[error("load.{0}: every weight must be a number over 0")]
    Weights(String),
    /// Shares of time where the schedule says what comes when.
    #[error(
        "load.{0}.mix_by: time is shared where the next operation waits for the last one; give closed arrivals, or mix_by: \
         count"
    )]
    TimeShares(String),
    /// Documents are counted where none are made.
    #[error(
        "stop.documents: no load of this phase inserts any, so it would not end; stop by duration or operations"
    )]
    NoDocuments,
    /// Faults that cannot be meant.
    #[error("faults: {0}")]
    Faults(#[from] fault::Error),
    /// It would not end.
    #[error("stop: {0}")]
    Stop(#[from] stop::Error),
}

impl Phase {
    /// Checks every number before anything is sent; gives the timeline of the faults.
    ///
    /// # Errors
    /// The first that is out of bounds, with its place.
    pub fn check(&self) -> Result<Vec<Stretch>, Error> {
        if self.loads.is_empty() {
            return Err(Error::NoLoad);
        }
        self.stop.check()?;
        let makes = self.loads.iter().any(|load| load.documents == Documents::Made);
        if self.stop.documents.is_some() && !makes {
            return Err(Error::NoDocuments);
        }
        self.loads.iter().try_for_each(Load::check)?;
        Ok(fault::timeline(&self.faults, self.stop.duration, self.seed)?)
    }
}

impl Load {
    fn check(&self) -> Result<(), Error> {
        let checked = self.arrivals.check();
        checked.map_err(|error| Error::Arrivals { load: self.name.clone(), error })?;
        if crate::mix::Mix::new(&self.mix, 0).is_none() {
            return Err(Error::Weights(self.name.clone()));
        }
        if self.mix_by == By::Time && self.arrivals.is_open() {
            return Err(Error::TimeShares(self.name.clone()));
        }
        Ok(())
    }
}
