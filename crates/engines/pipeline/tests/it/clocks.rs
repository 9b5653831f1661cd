//! Tests that delivery is counted by its clock, and that events from the future are counted.

use std::sync::Arc;

use plimsoll_measure::clock;
use plimsoll_measure::stream::Counts;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::transform::{Decode, Encode};
use plimsoll_pipeline::{Clock, Control, Parts, Pipeline, Settings, TransformFactory};

use crate::outcome::settings;
use crate::scripted::{Counting, Scripted};

/// The counts of 100 events with this clock and time.
fn counts(clock: Clock, appended_ms: u64, transforms: Vec<Box<dyn TransformFactory>>) -> Counts {
    let source = Counting { clock: (clock, appended_ms), ..Counting::new(100, 10) };
    let parts = Parts {
        sources: vec![Box::new(source)],
        transforms,
        sink: Box::new(Scripted::writing()),
        dead_letters: None,
        positions: None,
    };
    let settings = Settings { guarantee: Guarantee::AtLeastOnce, ..settings() };
    let pipeline = Pipeline::build(parts, settings, Arc::new(Control::default())).unwrap();
    let meter = pipeline.meter();
    pipeline.run().unwrap();
    meter.counts()
}

fn by_clock(counts: &Counts) -> [u64; 3] {
    [Count::ProducerClock, Count::SourceClock, Count::ClockAhead].map(|count| counts.get(count))
}

#[test]
fn written_events_are_counted_by_their_clock() {
    assert_eq!(by_clock(&counts(Clock::Here, 1, Vec::new())), [0, 0, 0]);
    assert_eq!(by_clock(&counts(Clock::Source, 1, Vec::new())), [0, 100, 0]);
    assert_eq!(by_clock(&counts(Clock::Producer, 1, Vec::new())), [100, 0, 0]);
}

#[test]
fn events_later_than_their_acknowledgement_are_counted() {
    let tomorrow_ms = clock::wall_ms() + 86_400_000;
    assert_eq!(by_clock(&counts(Clock::Producer, tomorrow_ms, Vec::new())), [100, 0, 100]);
}

#[test]
fn the_time_within_an_envelope_is_that_of_its_producer() {
    let transforms: Vec<Box<dyn TransformFactory>> = vec![Box::new(Encode), Box::new(Decode)];
    assert_eq!(by_clock(&counts(Clock::Source, 1, transforms)), [100, 0, 0]);
}
