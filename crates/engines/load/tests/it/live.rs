//! Watches a simulated phase while it runs, as a session does.

use std::sync::{Arc, Mutex};

use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Collector, Finished, Second};
use plimsoll_load::objective::Objective;
use plimsoll_load::phase::Phase;
use plimsoll_load::rate_watch::RateWatch;
use plimsoll_load::runtime::Simulated;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::{self, Control, Ended, Order, Supply};
use plimsoll_measure::clock::Instant;
use plimsoll_measure::expectation;
use plimsoll_measure::rule::Rule;
use plimsoll_measure::run::{Expectation, Operation};

use crate::scripted::{Script, Scripted, alone};

/// The results of a phase.
pub struct Seen {
    pub ended: Ended,
    pub reason: Option<String>,
    pub to_ns: u64,
    pub judged: Vec<Expectation>,
    /// The results of each operation, in the order of the names.
    pub operations: Vec<Operation>,
    /// The operations with the moments of their sending.
    pub moments: Vec<(usize, u64)>,
}

impl Seen {
    /// The moments when an operation was sent, in milliseconds.
    pub fn sent_ms(&self, operation: usize) -> Vec<u64> {
        let of = self.moments.iter().filter(|(it, _)| *it == operation);
        of.map(|(_, at_ns)| at_ns / 1_000_000).collect()
    }
}

struct Reader {
    collector: Collector,
    summary: Summary,
    watch: RateWatch,
}

impl Reader {
    fn read(&mut self, phase: &Phase, control: &Control, second: &Second) {
        self.summary.add(phase, second);
        if let Some(reason) = self.summary.broken() {
            control.abort(Ended::Threshold, reason);
        }
        if let Some(reason) = self.watch.add(second) {
            control.abort(Ended::NotReached, reason);
        }
    }
}

/// Runs one worker's phase on the virtual clock; checks every second as it ends. `names` are the operations.
pub fn live(phase: Phase, names: &[&str], rules: &[(&str, Rule)], script: Script) -> Seen {
    phase.check().unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let subjects: Vec<_> = phase.subjects(&names).collect();
    let wanted: Vec<_> =
        rules.iter().map(|(metric, rule)| expectation::read(metric, rule, &subjects).unwrap()).collect();
    let mut summary = Summary::new(names.clone(), Objective::standard()).expecting(&wanted);
    summary.arm();
    let watch = RateWatch::new(&phase, Share::WHOLE);
    let reader = Arc::new(Mutex::new(Reader { collector: Collector::new(1), summary, watch }));

    let clock = Simulated::default();
    let target = Scripted::new(&clock, script);
    let (control, phase) = (Control::default(), Arc::new(phase));
    let order = Order {
        phase: phase.clone(),
        operations: names.len(),
        share: Share::WHOLE,
        start: Instant::default(),
        supply: Arc::new(Supply::of(1)),
        backlogs: alone(&phase, Share::WHOLE),
    };
    let (inside, shared, stop, read, of) =
        (clock.clone(), target.clone(), control.clone(), reader.clone(), phase.clone());
    let sink = move |slice| {
        let mut reader = read.lock().unwrap();
        reader.collector.add(0, slice);
        while let Some(second) = reader.collector.complete() {
            reader.read(&of, &stop, &second);
        }
    };
    let (control_of_worker, end) = (control.clone(), Arc::new(Mutex::new(None)));
    let slot = end.clone();
    clock.run(async move {
        let ended = worker::run(inside, shared, Vec::new(), order, control_of_worker, sink).await;
        *slot.lock().unwrap() = Some((ended.ended, ended.to_ns));
    });
    let (ended, to_ns) = end.lock().unwrap().take().unwrap();
    let mut reader = reader.lock().unwrap();
    for second in std::mem::take(&mut reader.collector).finish() {
        reader.summary.add(&phase, &second);
    }
    reader.summary.end(&phase, &Finished { to_ns, ended, ..Finished::default() }, 0);
    let judged = reader.summary.expectations(None, &[], false);
    let mut operations = reader.summary.operations();
    let operations = names.iter().map(|name| operations.remove(name).unwrap()).collect();
    let moments = std::mem::take(&mut *target.moments.lock().unwrap());
    Seen { ended, reason: control.aborted().map(|(_, reason)| reason), to_ns, judged, operations, moments }
}
