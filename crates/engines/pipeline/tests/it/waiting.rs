//! Tests the counters of waiting. Sources wait for events or space, workers wait for batches or the sink.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::stream::Second;
use plimsoll_pipeline::meter::{Count, Meter};
use plimsoll_pipeline::{Control, Executor, Limits, Parts, Pipeline, Settings, Source};

use crate::scripted::{Counting, Scripted, Silent};

/// The waiting to observe before the counters are compared, in nanoseconds.
const SEEN_NS: u64 = 200_000_000;

/// The counts of a pipeline of one source and one worker, after both have waited for some time.
fn waited(source: Box<dyn Source>, sink: &Scripted) -> Second {
    let parts = Parts {
        sources: vec![source],
        transforms: Vec::new(),
        sink: Box::new(sink.clone()),
        dead_letters: None,
        positions: None,
    };
    let limits = Limits { events_max: 100, batch_events_max: 10, ..Limits::default() };
    let settings = Settings { limits, executor: Executor::Pool(1), ..Settings::default() };
    let control = Arc::new(Control::default());
    let pipeline = Pipeline::build(parts, settings, Arc::clone(&control)).unwrap();
    let meter = pipeline.meter();
    let running = std::thread::spawn(move || pipeline.run().unwrap());
    while !has_waited(&meter) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut second = Second::default();
    second.set_counts(&meter.counts());
    sink.set_open(true);
    control.drain();
    running.join().unwrap();
    second
}

fn has_waited(meter: &Meter) -> bool {
    let counts = meter.counts();
    let sum = |all: &[Count]| all.iter().map(|count| counts.get(*count)).sum::<u64>();
    sum(&[Count::StarvedNs, Count::BlockedNs]) > SEEN_NS && sum(&[Count::IdleNs, Count::SinkWaitNs]) > SEEN_NS
}

#[test]
fn a_source_without_events_starves_and_its_worker_has_no_load() {
    let second = waited(Box::new(Silent), &Scripted::writing());
    assert!(second.count(Count::StarvedNs) > 2 * second.count(Count::BlockedNs), "{second:?}");
    assert!(second.load_since(&Second::default()) < 0.1, "{second:?}");
}

#[test]
fn a_blocked_sink_blocks_the_source_and_loads_the_worker() {
    let sink = Scripted::writing();
    sink.set_open(false);
    let second = waited(Box::new(Counting::new(10_000, 10)), &sink);
    assert!(second.count(Count::BlockedNs) > 2 * second.count(Count::StarvedNs), "{second:?}");
    assert!(second.load_since(&Second::default()) > 0.5, "{second:?}");
    assert_eq!(second.count(Count::Written), 0, "{second:?}");
}
