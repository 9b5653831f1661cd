//! Adds up a run second by second, and says what each operation did.

use std::collections::BTreeMap;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::expectation;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::run::{FaultFacts, Operation, PhaseFacts, SecondsSpread, WarmUp};

use crate::engine::{Finished, Second, TenthLine};
use crate::fault::Happening;
use crate::objective::Objective;
use crate::outage;
use crate::phase::Phase;
use crate::warm_up;

/// A run so far. Memory grows with its seconds by some numbers each, not by histograms.
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
}

#[derive(Clone, Debug, Default)]
struct Sum {
    whole: Tally,
    /// Time in which the operation was under load.
    load_ns: u64,
    /// Completed and due before the end of each open phase.
    in_time: u64,
    due: u64,
    open: bool,
    /// Documents of each full second.
    seconds: Vec<u64>,
    steady_documents: u64,
    steady_ns: u64,
}

/// The phase under way.
#[derive(Debug, Default)]
struct Current {
    whole: Tally,
    tenths: Vec<TenthLine>,
    seconds: Vec<Sec>,
}

/// One second of a phase.
#[derive(Debug, Default)]
struct Sec {
    /// What a fault would show in.
    seen: outage::Second,
    /// Documents of each operation.
    documents: Vec<u64>,
}

impl Summary {
    /// A summary of operations by their indices; after a fault `objective` must hold again.
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
        }
    }

    /// Adds one second of `phase`.
    pub fn add(&mut self, phase: &Phase, second: &Second) {
        let in_time = phase.stop.duration.is_none_or(|span| second.to_ns <= span.as_ns());
        for (sum, tally) in self.operations.iter_mut().zip(&second.tallies) {
            sum.whole.merge(tally);
            if in_time {
                sum.in_time += tally.completed();
                sum.due += tally.due;
            }
        }
        second.tallies.iter().for_each(|tally| self.current.whole.merge(tally));
        self.cpu_ns.resize(self.cpu_ns.len().max(second.cpu_ns.len()), 0);
        self.cpu_ns.iter_mut().zip(&second.cpu_ns).for_each(|(sum, part)| *sum += part);
        if let Some(switches) = second.switches {
            *self.switches.get_or_insert(0) += switches;
        }
        self.load_ns += second.to_ns - second.from_ns;
        self.reconnects += second.reconnects;
        self.current.tenths.extend(&second.tenths);
        let documents = second.tallies.iter().map(|tally| tally.documents).collect();
        self.current.seconds.push(Sec { seen: self.seen(second), documents });
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

    /// Ends `phase`, which started `from_ns` nanoseconds after the run.
    pub fn end(&mut self, phase: &Phase, finished: &Finished, from_ns: u64) {
        let current = std::mem::take(&mut self.current);
        let warm_up = warm_up::assess(&current.tenths);
        for (operation, open) in used(phase) {
            self.operations[operation].load(&current, operation, finished, &warm_up, open);
        }
        self.faults.extend(faults(phase, finished, &current, from_ns));
        let described = phase.loads.iter().map(|load| (load.name.clone(), load.arrivals.describe()));
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
        });
    }

    /// What each operation did, by name.
    pub fn operations(&self) -> BTreeMap<String, Operation> {
        self.names.iter().cloned().zip(self.operations.iter().map(Sum::operation)).collect()
    }

    /// Each operation for the judgement of expectations.
    pub fn measured(&self) -> Vec<expectation::Operation<'_>> {
        let pairs = self.names.iter().zip(&self.operations);
        pairs.map(|(name, sum)| sum.measured(name)).collect()
    }

    /// The phases that have ended.
    pub fn phases(&self) -> &[PhaseFacts] {
        &self.phases
    }

    /// The faults that happened, and what each did.
    pub fn faults(&self) -> &[FaultFacts] {
        &self.faults
    }

    /// Everything that each operation did, by index.
    pub fn tallies(&self) -> impl Iterator<Item = (&str, &Tally)> {
        self.names.iter().map(String::as_str).zip(self.operations.iter().map(|sum| &sum.whole))
    }

    /// How often all workers' threads were switched away from their cores, where the system tells.
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

    /// Connections that were opened again.
    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    /// Operations and documents that were acknowledged.
    pub fn acknowledged(&self) -> (u64, u64) {
        let whole = self.operations.iter().map(|sum| &sum.whole);
        whole.fold((0, 0), |(operations, documents), it| (operations + it.count, documents + it.documents))
    }
}

impl Sum {
    fn load(&mut self, current: &Current, index: usize, finished: &Finished, warm_up: &WarmUp, open: bool) {
        self.load_ns += finished.to_ns;
        self.open |= open;
        let steady_from_ns = match warm_up {
            WarmUp::Steady { from_s } => (from_s * 1e9) as u64,
            _ => u64::MAX,
        };
        for second in &current.seconds {
            let (from_ns, to_ns) = (second.seen.from_ns, second.seen.to_ns);
            let documents = second.documents.get(index).copied().unwrap_or(0);
            if to_ns - from_ns == SECOND_NS {
                self.seconds.push(documents);
            }
            if from_ns >= steady_from_ns {
                self.steady_documents += documents;
                self.steady_ns += to_ns - from_ns;
            }
        }
    }

    fn measured<'a>(&'a self, name: &'a str) -> expectation::Operation<'a> {
        let seconds = seconds(self.load_ns).max(f64::MIN_POSITIVE);
        expectation::Operation { name, tally: &self.whole, seconds, achieved: self.achieved() }
    }

    fn achieved(&self) -> Option<f64> {
        (self.open && self.due > 0).then(|| self.in_time as f64 / self.due as f64)
    }

    fn operation(&self) -> Operation {
        let whole = &self.whole;
        let under_load_s = seconds(self.load_ns).max(f64::MIN_POSITIVE);
        Operation {
            count: whole.count,
            documents: whole.documents,
            due: whole.due,
            rate_per_s: whole.count as f64 / under_load_s,
            documents_per_s: whole.documents as f64 / under_load_s,
            steady_documents_per_s: (self.steady_ns >= SECOND_NS)
                .then(|| self.steady_documents as f64 / seconds(self.steady_ns)),
            documents_in_a_second: spread(&self.seconds),
            achieved: self.achieved(),
            skipped: whole.skipped,
            retries: whole.retries,
            response_ns: whole.response.latency(),
            service_ns: whole.service.latency(),
            wake_ns: whole.wake.latency(),
            wait_ns: whole.wait.latency(),
            failed_response_ns: whole.failed_response.latency(),
            errors: named(whole.errors.by_class()),
            document_errors: named(whole.document_errors.by_class()),
            bytes_sent: whole.bytes_sent,
            bytes_received: whole.bytes_received,
        }
    }
}

/// Each operation of a phase once, and whether any of its loads is open.
fn used(phase: &Phase) -> BTreeMap<usize, bool> {
    let mut used = BTreeMap::new();
    for load in &phase.loads {
        for (operation, _) in &load.mix {
            *used.entry(*operation).or_default() |= load.arrivals.is_open();
        }
    }
    used
}

/// What each fault of a phase did; moments count from the run's start.
fn faults(phase: &Phase, finished: &Finished, current: &Current, from_ns: u64) -> Vec<FaultFacts> {
    let seen: Vec<_> = current.seconds.iter().map(|second| second.seen).collect();
    let calm_until_ns = finished.faults.iter().map(|it| it.from_ns).min().unwrap_or(0);
    let fact = |(index, happening): (usize, &Happening)| {
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

fn named(classes: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    classes.map(|(name, count)| (name.to_owned(), count)).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
}

/// Percentiles of single seconds by nearest rank.
fn spread(documents: &[u64]) -> Option<SecondsSpread> {
    let mut sorted = documents.to_vec();
    sorted.sort_unstable();
    let rank = |p: f64| sorted[((sorted.len() as f64 * p).ceil() as usize).clamp(1, sorted.len()) - 1] as f64;
    (!sorted.is_empty()).then(|| SecondsSpread {
        seconds: sorted.len() as u64,
        min: rank(0.0),
        p1: rank(0.01),
        p50: rank(0.5),
        max: rank(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_of_two_loads_is_under_load_once() {
        use crate::arrivals::Arrivals;
        use crate::phase::{Documents, Load, Overdue};
        use crate::retry::Retry;
        use plimsoll_measure::duration::Span;
        let load = |arrivals| Load {
            mix_by: Default::default(),
            name: "load".into(),
            mix: vec![(0, 1.0)],
            arrivals,
            overdue: Overdue::Send,
            documents: Documents::Used,
        };
        let open = Arrivals::Constant { rate: 1.0, connections: 1 };
        let phase = Phase {
            name: "phase".into(),
            key: None,
            loads: vec![load(Arrivals::Closed { writers: 1 }), load(open)],
            stop: crate::stop::Stop::default(),
            drain: Span::from_secs(1),
            unreachable_for: Span::from_secs(1),
            seed: 0,
            faults: Vec::new(),
            retry: Retry::None,
        };
        assert_eq!(used(&phase), BTreeMap::from([(0, true)]));
    }

    #[test]
    fn stalls_show_in_the_spread_of_seconds() {
        let mut seconds = vec![1000; 99];
        seconds.push(0);
        let spread = spread(&seconds).unwrap();
        assert_eq!(
            (spread.seconds, spread.min, spread.p1, spread.p50, spread.max),
            (100, 0.0, 0.0, 1000.0, 1000.0)
        );
    }
}
