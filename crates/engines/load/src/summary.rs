//! Adds up a run second by second and summarises each operation.

use std::collections::BTreeMap;

use plimsoll_measure::expectation::{self, Checks, Wanted};
use plimsoll_measure::first_error::{FirstError, OperationError};
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::run::{Answers, Expectation, FaultFacts, Operation, PhaseFacts};

use crate::engine::{Finished, Second, TenthLine};
use crate::fault::InjectedFault;
use crate::objective::Objective;
use crate::outage;
use crate::phase::Phase;
use crate::warm_up;
use crate::worker::Tenth;

mod sum;
mod watch;

use sum::{Cover, Sum, micros_per, named, seconds};
use watch::Watch;

/// The first operation of each connection is prepared before its phase begins, and that CPU is not counted.
/// With this many operations for each connection the error is at most a twentieth.
const OPERATIONS_A_CONNECTION: u64 = 20;

/// The sums of a run so far. Each second adds some numbers to its memory, but no histogram.
#[derive(Debug)]
pub struct Summary {
    names: Vec<String>,
    operations: Vec<Sum>,
    phases: Vec<PhaseFacts>,
    current: Current,
    cpu_ns: Vec<u64>,
    switches: Option<u64>,
    load_ns: u64,
    reconnects: u64,
    objective: Objective,
    faults: Vec<FaultFacts>,
    watch: Watch,
    /// The first error of each operation and class.
    first_errors: BTreeMap<(usize, String), FirstError>,
}

/// The current phase.
#[derive(Debug, Default)]
struct Current {
    whole: Tally,
    tenths: Vec<TenthLine>,
    seconds: Vec<Single>,
    /// CPU of all workers.
    cpu_ns: u64,
}

/// One second of a phase.
#[derive(Debug, Default)]
struct Single {
    /// The successes and failures, for faults.
    seen: outage::Second,
    /// Documents of each operation.
    documents: Vec<u64>,
}

impl Summary {
    /// Summarises operations by their indices; after a fault `objective` must hold again.
    pub fn new(names: Vec<String>, objective: Objective) -> Self {
        let operations = vec![Sum::default(); names.len()];
        Self {
            names,
            operations,
            phases: Vec::new(),
            current: Current::default(),
            cpu_ns: Vec::new(),
            switches: None,
            load_ns: 0,
            reconnects: 0,
            objective,
            faults: Vec::new(),
            watch: Watch::default(),
            first_errors: BTreeMap::new(),
        }
    }

    /// Adds expectations to judge.
    pub fn expecting(mut self, wanted: &[Wanted]) -> Self {
        self.watch = Watch::new(wanted, &self.names);
        self
    }

    /// Enables the expectations that end the run.
    pub fn arm(&mut self) {
        self.watch.arm();
    }

    /// The reason why the run must end, if an expectation that ends it is broken. Checks every two seconds of
    /// load.
    pub fn broken(&mut self) -> Option<String> {
        self.watch.broken(&self.operations, self.load_ns)
    }

    /// Judges the expectations: all of them, or only integrity. `answers` contains the operations with
    /// counted checks.
    pub fn expectations(
        &self,
        integrity: Option<&Integrity>,
        answers: &[Answers],
        only_integrity: bool,
    ) -> Vec<Expectation> {
        let of =
            |name: &String| answers.iter().find(|it| it.operation == *name).map(|it| it.checks.as_slice());
        let checked: Vec<_> = self.names.iter().map(|name| of(name).map(Checks::of)).collect();
        self.watch.judge(&self.operations, &checked, integrity, only_integrity)
    }

    /// The default expectations that did not hold: errors that no expectation covers.
    pub fn unexpected_errors(&self) -> Vec<Expectation> {
        self.watch.unexpected_errors(&self.names)
    }

    /// The errors of a second that are the first of their class in the run, with the names of their operations.
    pub fn unseen<'a>(&'a self, second: &'a Second) -> impl Iterator<Item = (&'a str, &'a OperationError)> {
        let unseen =
            |it: &&OperationError| !self.first_errors.contains_key(&(it.operation, it.class.clone()));
        second.first_errors.iter().filter(unseen).map(|it| (self.names[it.operation].as_str(), it))
    }

    /// Adds one second of `phase`.
    pub fn add(&mut self, phase: &Phase, second: &Second) {
        for (operation, cover) in Cover::all(phase) {
            if let Some(tally) = second.tallies.get(operation) {
                self.operations[operation].add(tally, second, &cover);
            }
        }
        self.watch.add(phase, second, &self.names);
        second.tallies.iter().for_each(|tally| self.current.whole.merge(tally));
        self.cpu_ns.resize(self.cpu_ns.len().max(second.cpu_ns.len()), 0);
        self.cpu_ns.iter_mut().zip(&second.cpu_ns).for_each(|(sum, part)| *sum += part);
        self.current.cpu_ns += second.cpu_ns.iter().sum::<u64>();
        if let Some(switches) = second.switches {
            *self.switches.get_or_insert(0) += switches;
        }
        for OperationError { operation, class, error } in &second.first_errors {
            self.first_errors.entry((*operation, class.clone())).or_insert_with(|| error.clone());
        }
        self.load_ns += second.to_ns - second.from_ns;
        self.reconnects += second.reconnects;
        self.current.tenths.extend(second.tenths.iter().map(Tenth::line));
        let documents = second.tallies.iter().map(|tally| tally.documents).collect();
        self.current.seconds.push(Single { seen: self.seen(second), documents });
    }

    fn seen(&self, second: &Second) -> outage::Second {
        let mut whole = Tally::default();
        second.tallies.iter().for_each(|tally| whole.merge(tally));
        outage::Second {
            from_ns: second.from_ns,
            to_ns: second.to_ns,
            errors: whole.errors,
            held: self.objective.holds_in(&whole),
        }
    }

    /// Ends `phase`, which started `from_ns` nanoseconds into the run.
    pub fn end(&mut self, phase: &Phase, finished: &Finished, from_ns: u64) {
        let current = std::mem::take(&mut self.current);
        let warm_up = warm_up::assess(&current.tenths);
        for (operation, cover) in Cover::all(phase) {
            self.operations[operation].end(finished.to_ns, &cover);
            self.operations[operation].spread(&current, operation, &warm_up, &cover);
        }
        let cpu_is_known = current.whole.count >= OPERATIONS_A_CONNECTION * connections(phase);
        // CPU that several operations share cannot be split among them.
        if let ([(operation, _)], true) =
            (&Cover::all(phase).into_iter().collect::<Vec<_>>()[..], cpu_is_known)
        {
            self.operations[*operation].alone(current.cpu_ns, current.whole.count);
        }
        self.watch.end(phase, finished.to_ns, &self.names);
        self.faults.extend(faults(phase, finished, &current, from_ns));
        let described = phase.loads.iter().map(|load| (load.name.clone(), load.describe()));
        self.phases.push(PhaseFacts {
            name: phase.name.clone(),
            arrivals: described.collect(),
            open: phase.loads.iter().all(|load| load.arrivals.is_open()),
            from_s: seconds(from_ns),
            to_s: seconds(from_ns + finished.to_ns),
            ended_by: finished.ended.name().to_owned(),
            warm_up,
            checkpoints: None,
            operations: current.whole.count,
            documents: current.whole.documents,
            documents_per_s: current.whole.documents as f64 / seconds(finished.to_ns).max(f64::MIN_POSITIVE),
            response_ns: current.whole.response.latency(),
            errors: current.whole.errors.total(),
            cpu_us_per_operation: micros_per(current.cpu_ns, current.whole.count).filter(|_| cpu_is_known),
        });
    }

    /// The summary of each operation, by name.
    pub fn operations(&self) -> BTreeMap<String, Operation> {
        let operation = |(index, sum): (usize, &Sum)| {
            let first_errors = self.first_errors.range((index, String::new())..(index + 1, String::new()));
            // A retry or a new token may have turned a noted error into a success.
            let counted =
                |class: &str| sum.whole.errors.of_class(class) + sum.whole.document_errors.of_class(class);
            let first_errors = first_errors.filter(|((_, class), _)| counted(class) > 0);
            let first_errors = first_errors.map(|((_, class), error)| (class.clone(), error.clone()));
            Operation { first_errors: first_errors.collect(), ..sum.operation() }
        };
        self.names.iter().cloned().zip(self.operations.iter().enumerate().map(operation)).collect()
    }

    /// Each operation by its index, for the judgement of expectations.
    pub fn measured(&self) -> Vec<expectation::Operation<'_>> {
        self.operations.iter().map(Sum::measured).collect()
    }

    /// The phases that have ended.
    pub fn phases(&self) -> &[PhaseFacts] {
        &self.phases
    }

    /// The faults that happened, and their effects.
    pub fn faults(&self) -> &[FaultFacts] {
        &self.faults
    }

    /// The sums of each operation, by index.
    pub fn tallies(&self) -> impl Iterator<Item = (&str, &Tally)> {
        self.names.iter().map(String::as_str).zip(self.operations.iter().map(|sum| &sum.whole))
    }

    /// The number of times that the operating system switched the workers' threads away from their cores, if
    /// reported.
    pub const fn switches(&self) -> Option<u64> {
        self.switches
    }

    /// CPU that all workers used under load, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns.iter().sum()
    }

    /// CPU of the busiest worker, 0 to 1.
    pub fn cpu_busiest(&self) -> f64 {
        self.cpu_ns.iter().max().map_or(0.0, |busiest| *busiest as f64 / self.load_ns.max(1) as f64)
    }

    /// Time under load, in nanoseconds.
    pub fn load_ns(&self) -> u64 {
        self.load_ns
    }

    /// Reconnects.
    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    /// Acknowledged operations and documents.
    pub fn acknowledged(&self) -> (u64, u64) {
        let whole = self.operations.iter().map(|sum| &sum.whole);
        whole.fold((0, 0), |(operations, documents), it| (operations + it.count, documents + it.documents))
    }
}

fn connections(phase: &Phase) -> u64 {
    phase.loads.iter().map(|load| u64::from(load.arrivals.connections())).sum()
}

/// The effect of each fault of a phase; moments count from the run's start.
fn faults(phase: &Phase, finished: &Finished, current: &Current, from_ns: u64) -> Vec<FaultFacts> {
    let seen: Vec<_> = current.seconds.iter().map(|second| second.seen).collect();
    let calm_until_ns = finished.faults.iter().map(|it| it.from_ns).min().unwrap_or(0);
    let fact = |(index, happening): (usize, &InjectedFault)| {
        let next = finished.faults.get(index + 1).map(|next| next.from_ns);
        let until_ns = next.unwrap_or(finished.to_ns);
        let outage = outage::outage(happening, until_ns, calm_until_ns, &current.tenths, &seen);
        let moment = |at_ns: Option<u64>| at_ns.map(|at_ns| seconds(from_ns + at_ns));
        FaultFacts {
            name: phase.faults[happening.fault].name.clone(),
            phase: phase.name.clone(),
            from_s: seconds(from_ns + happening.from_ns),
            to_s: moment(happening.to_ns.filter(|_| happening.error.is_none())),
            error: happening.error.clone(),
            outage_s: seconds(outage.silence_ns),
            last_success_s: moment(outage.last_success_ns),
            first_error_s: moment(outage.first_error_ns),
            first_success_s: moment(outage.first_success_ns),
            held_again_s: moment(outage.held_again_ns),
            errors: named(outage.errors.by_class()),
        }
    };
    finished.faults.iter().enumerate().map(fact).collect()
}

#[cfg(test)]
mod tests;
