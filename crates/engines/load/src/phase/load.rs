//! Describes one load of a phase: its operations, its arrivals, its start and its end.

use std::collections::BTreeMap;

use plimsoll_measure::duration::Span;
use plimsoll_measure::metric::{Subject, Tags};

use super::{Connections, Documents, Error, Overdue, Phase};
use crate::arrivals::Arrivals;
use crate::mix::{By, Mix};
use crate::rate_floor::RateFloor;
use crate::stop::Stop;
use crate::think::Think;

/// One stream of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The name in the scenario.
    pub name: String,
    /// (operation, weight): indices into the plan's operations.
    pub mix: Vec<(usize, f64)>,
    /// The unit of the weights' shares.
    pub mix_by: By,
    /// The arrivals.
    pub arrivals: Arrivals,
    /// The life of its connections.
    pub connections: Connections,
    /// The treatment of overdue operations.
    pub overdue: Overdue,
    /// Whether the operations make documents.
    pub documents: Documents,
    /// The start and end within the phase.
    pub timing: Timing,
    /// The tags of the operations, by their index.
    pub tags: BTreeMap<usize, Tags>,
}

/// The start and end of a load within its phase, and the pauses of its writers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// The delay after the start of the phase.
    pub start: Span,
    /// The end, counted from the load's own start, if it ends before its phase.
    pub stop: Stop,
    /// The time after its end in which operations may still be sent and answered. The default for sending is
    /// the phase's `drain`, and for answers each operation's time limit.
    pub graceful_stop: Option<Span>,
    /// The pause of a closed writer between two operations.
    pub think: Option<Think>,
    /// The share of the rate below which the run ends.
    pub rate_floor: Option<RateFloor>,
}

/// No tags.
static NO_TAGS: Tags = Tags::new();

impl Load {
    /// A load of the first operation, which makes documents, with the defaults of scenarios.
    pub fn new(name: &str, arrivals: Arrivals) -> Self {
        Self {
            name: name.to_owned(),
            mix: vec![(0, 1.0)],
            mix_by: By::default(),
            arrivals,
            connections: Connections::default(),
            overdue: Overdue::default(),
            documents: Documents::Made,
            timing: Timing::default(),
            tags: BTreeMap::new(),
        }
    }

    /// The names by which metrics select an operation.
    pub fn subject<'a>(&'a self, phase: &'a str, names: &'a [String], operation: usize) -> Subject<'a> {
        Subject {
            phase,
            load: &self.name,
            operation: names.get(operation).map_or("", String::as_str),
            tags: self.tags.get(&operation).unwrap_or(&NO_TAGS),
        }
    }

    /// The same operations with other arrivals: from the start, without pauses, until the phase ends.
    pub fn arriving(&self, arrivals: Arrivals) -> Self {
        Self { arrivals, timing: Timing::default(), ..self.clone() }
    }

    /// The end, counted from the start of a phase with this `stop`, if time ends the load.
    pub fn end(&self, phase: Stop) -> Option<Span> {
        let own = self.timing.stop.duration;
        let own = own.map(|span| Span::from_ns(self.timing.start.as_ns().saturating_add(span.as_ns())));
        own.into_iter().chain(phase.duration).min()
    }

    /// The limits of operations: those of the load and of a phase with this `stop`.
    pub fn limits(&self, phase: Stop) -> Stop {
        self.timing.stop.and(phase)
    }

    /// Formats the arrivals for reports: `constant 1000/s over 16 connections, from 10s on, for 30s`.
    pub fn describe(&self) -> String {
        let Timing { start, stop, think, .. } = &self.timing;
        let think = think.map(|think| format!(", thinking {think}"));
        let from = (start.as_ns() > 0).then(|| format!(", from {start} on"));
        let lasts = stop.duration.map(|span| format!(", for {span}"));
        let own = (self.connections == Connections::PerOperation)
            .then(|| ", a new connection for each operation".to_owned());
        let parts = [Some(self.arrivals.describe()), own, think, from, lasts];
        parts.into_iter().flatten().collect()
    }

    pub(super) fn check(&self, phase: &Phase) -> Result<(), Error> {
        let checked = self.arrivals.check();
        checked.map_err(|error| Error::Arrivals { load: self.name.clone(), error })?;
        if Mix::new(&self.mix, 0).is_none() {
            return Err(Error::Weights(self.name.clone()));
        }
        if self.mix_by == By::Time && self.arrivals.is_open() {
            return Err(Error::TimeShares(self.name.clone()));
        }
        self.check_timing(phase)?;
        self.check_words(phase)
    }

    fn check_timing(&self, phase: &Phase) -> Result<(), Error> {
        let Timing { start, stop, .. } = self.timing;
        if stop.documents.is_some() {
            return Err(Error::LoadDocuments(self.name.clone()));
        }
        if stop != Stop::default() {
            stop.check().map_err(|error| Error::LoadStop { load: self.name.clone(), error })?;
        }
        match phase.stop.duration {
            Some(end) if start >= end => Err(Error::TooLate { load: self.name.clone(), start, end }),
            _ => Ok(()),
        }
    }

    /// Checks the keys that apply only to closed or only to open arrivals.
    fn check_words(&self, phase: &Phase) -> Result<(), Error> {
        let Timing { think, rate_floor, .. } = self.timing;
        let name = || self.name.clone();
        if !self.arrivals.is_open() {
            return match (rate_floor, think) {
                (Some(_), _) => Err(Error::NothingToReach(name())),
                (_, Some(think)) if !think.is_sound() => Err(Error::Think(name())),
                _ => Ok(()),
            };
        }
        if think.is_some() {
            return Err(Error::ClosedOnly(name(), "think"));
        }
        if self.limits(phase.stop).operations_each.is_some() {
            return Err(Error::ClosedOnly(name(), "stop.operations_each"));
        }
        if rate_floor.is_some_and(|rate_floor| !rate_floor.is_valid()) {
            Err(Error::RateFloor(name()))
        } else {
            Ok(())
        }
    }
}
