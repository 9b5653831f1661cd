//! Tests that every event read is counted once, and that positions follow.

use std::sync::Arc;

use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::sink::Noop;
use plimsoll_pipeline::{
    Batch, Cause, CauseClass, Control, Executor, Fate, Parts, Pipeline, Refused, Settings, Transform,
    TransformError, TransformFactory, Verdict,
};

use crate::scripted::{Counting, Scripted};

/// A transform that drops every third event, and rejects every fifth of the others.
struct Thirds;

impl TransformFactory for Thirds {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Self))
    }

    fn name(&self) -> &str {
        "thirds"
    }
}

impl Transform for Thirds {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        batch.sift(|batch, index| match batch.events()[index].offset {
            offset if offset % 3 == 0 => Fate::Drop,
            offset if offset % 5 == 0 => Fate::Reject(Cause::new("thirds", CauseClass::Invalid, "a fifth")),
            _ => Fate::Keep,
        });
        Ok(())
    }
}

#[test]
fn counts_add_up_to_the_events_read() {
    let sink = Scripted::new(|batch| {
        let sevens = batch.events().iter().enumerate().filter(|(_, event)| event.offset % 7 == 0);
        let refused =
            sevens.map(|(index, _)| Refused { index: index as u32, reason: "a seventh".into() }).collect();
        Verdict::Written { replayed: 0, refused }
    });
    let (letters, source) = (Scripted::writing(), Counting::new(10_000, 64));
    let committed = Arc::clone(&source.committed);
    let parts = Parts {
        sources: vec![Box::new(source)],
        transforms: vec![Box::new(Thirds)],
        sink: Box::new(sink.clone()),
        dead_letters: Some(Box::new(letters.clone())),
        positions: None,
    };
    let settings = Settings { executor: Executor::Pool(3), ..Settings::default() };
    let pipeline = Pipeline::build(parts, settings, Arc::new(Control::default())).unwrap();
    let (meter, budget) = (pipeline.meter(), pipeline.budget());
    pipeline.run().unwrap();
    let fates = |keep: fn(u64) -> bool| (0..10_000).filter(|offset| keep(*offset)).collect::<Vec<_>>();
    let sorted = |mut offsets: Vec<u64>| {
        offsets.sort_unstable();
        offsets
    };
    assert_eq!(sorted(sink.written()), fates(|at| at % 3 != 0 && at % 5 != 0 && at % 7 != 0));
    assert_eq!(sorted(letters.written()), fates(|at| at % 3 != 0 && (at % 5 == 0 || at % 7 == 0)));
    let counts = meter.counts();
    assert_eq!((counts.get(Count::Read), counts.settled()), (10_000, 10_000));
    assert_eq!(counts.get(Count::Filtered), 3334);
    assert_eq!(counts.get(Count::Written), sink.written().len() as u64);
    assert_eq!(counts.get(Count::DeadLettered), letters.written().len() as u64);
    let durable = counts.get(Count::Written) + counts.get(Count::DeadLettered);
    assert_eq!((counts.get(Count::Admitted), counts.get(Count::Acknowledged)), (10_000, durable));
    assert!((counts.integrity() - 1.0).abs() < f64::EPSILON);
    assert_eq!(budget.in_flight().events, 0);
    assert_eq!(committed.lock().unwrap().last(), Some(&10_000));
}

#[test]
fn every_event_is_timed_at_every_stage() {
    let parts = Parts {
        sources: vec![Box::new(Counting::new(1000, 10))],
        transforms: vec![Box::new(Thirds)],
        sink: Box::new(Noop),
        dead_letters: Some(Box::new(Noop)),
        positions: None,
    };
    let pipeline = Pipeline::build(parts, Settings::default(), Arc::new(Control::default())).unwrap();
    let meter = pipeline.meter();
    pipeline.run().unwrap();
    let times = meter.take_times();
    let counted: Vec<_> = meter.stages().iter().enumerate().map(|(at, _)| times.of(at).count()).collect();
    let written = meter.counts().get(Count::Written);
    assert_eq!(counted, [1000, 1000, written, written]);
}
