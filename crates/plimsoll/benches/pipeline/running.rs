//! Runs a pipeline in this process, from its first event to its last.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::{Count, Meter};
use plimsoll_pipeline::{
    Control, Executor, Limits, Parts, Pipeline, Settings, SinkFactory, Source, TransformFactory,
};
use serde_json::json;

use crate::Failure;
use crate::row::{P999, Turn};
use crate::testbed::Log;
use crate::watch::{Sample, watch};

/// The interval at which a pipeline's counters are read: long enough to cost nothing.
const EVERY: Duration = Duration::from_millis(2);

/// One source, some transforms and a sink.
pub(crate) fn parts(
    source: impl Source + 'static,
    transforms: Vec<Box<dyn TransformFactory>>,
    sink: impl SinkFactory + 'static,
) -> Parts {
    Parts {
        sources: vec![Box::new(source)],
        transforms,
        sink: Box::new(sink),
        dead_letters: None,
        positions: None,
    }
}

/// One worker, and 20 batches in flight.
pub(crate) fn settings(guarantee: Guarantee, batch: usize) -> Settings {
    let limits = Limits { batch_events_max: batch, events_max: 20 * batch, ..Limits::default() };
    Settings { guarantee, limits, executor: Executor::Pool(1), ..Settings::default() }
}

/// A topic as a source, for a group that begins at the beginning.
pub(crate) fn topic(
    log: &Log,
    topic: &str,
    group: &str,
) -> Result<plimsoll_kafka::scenario::Source, Failure> {
    let typed = json!({"brokers": log.brokers(), "topic": topic, "group": group, "start": "earliest"});
    Ok(serde_json::from_value(typed)?)
}

/// Runs a pipeline until this many events are written, and drains it once it has read all. The turn begins
/// when the pipeline has read the first event.
///
/// # Errors
/// The error that ended it early, or the number of missing events.
pub(crate) fn run(parts: Parts, settings: Settings, events: u64) -> Result<Turn, Failure> {
    let control = Arc::new(Control::default());
    let pipeline = Pipeline::build(parts, settings, Arc::clone(&control))?;
    let meter = pipeline.meter();
    let thread = thread::spawn(move || pipeline.run());
    let turn = watch(events, EVERY, || {
        // The order matters: the pipeline ends after its last event is written, so the counts are final if it
        // has ended.
        let (is_over, counts) = (thread.is_finished(), meter.counts());
        let written = counts.get(Count::Written);
        if is_over && written < events {
            return Err(format!("the pipeline ended with {written} of {events} events").into());
        }
        let read = counts.get(Count::Read);
        // The last transaction does not wait for further events.
        if read >= events {
            control.drain();
        }
        Ok(Sample { has_begun: read > 0, events: written, cpu_ns: clock::process_cpu_ns() })
    });
    control.drain();
    let ended = thread.join().map_err(|_| "the pipeline panicked")?;
    // The error that ended the pipeline is more precise than the counts.
    ended?;
    let counts = meter.counts();
    let astray = [Count::Lost, Count::DeadLettered, Count::Replayed].map(|count| counts.get(count));
    if astray != [0; 3] {
        return Err(
            format!("{astray:?} events were lost, became dead letters, or were written before").into()
        );
    }
    Ok(Turn { p999: p999(&meter), later_half: None, ..turn? })
}

/// The slowest events of an ended pipeline, including its first events.
pub(crate) fn p999(meter: &Meter) -> Option<P999> {
    let times = meter.take_times();
    let delivery = meter.stages().len().checked_sub(1)?;
    let of = |stage: usize| times.of(stage).at(99.9);
    let moved = times.of(delivery).count() > 0;
    moved.then(|| P999 { sink_ns: of(delivery - 1), delivery_ns: Some(of(delivery)) })
}
