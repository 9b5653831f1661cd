//! Runs a thousand events from a counting source through a pipeline, and stores the result.

use std::sync::Arc;

use plimsoll_pipeline::engine::{Exhausted, Retry};
use plimsoll_pipeline::meter::Meter;
use plimsoll_pipeline::{
    Batch, Cause, CauseClass, Control, Ended, Error, Executor, Fate, Parts, Pipeline, Settings, SinkFactory,
    Transform, TransformError, TransformFactory,
};

use crate::scripted::{Counting, Scripted};

pub const RETRY: Retry = Retry {
    pause_ns_min: 1000,
    pause_ns_max: 10_000,
    attempts_max: None,
    time_ns_max: None,
    then: Exhausted::Stop,
    opens_after: 3,
};

pub struct Outcome {
    pub ended: Result<Ended, Error>,
    pub meter: Arc<Meter>,
    pub committed: Vec<u64>,
}

pub fn settings() -> Settings {
    Settings { retry: RETRY, executor: Executor::Pool(2), ..Settings::default() }
}

/// Runs the pipeline with ten events per batch.
pub fn run(sink: &Scripted, letters: Option<&Scripted>, settings: Settings) -> Outcome {
    run_through(Vec::new(), sink, letters, settings)
}

/// Runs the pipeline with transforms.
pub fn run_through(
    transforms: Vec<Box<dyn TransformFactory>>,
    sink: &Scripted,
    letters: Option<&Scripted>,
    settings: Settings,
) -> Outcome {
    let source = Counting::new(1000, 10);
    let committed = Arc::clone(&source.committed);
    let parts = Parts {
        sources: vec![Box::new(source)],
        transforms,
        sink: Box::new(sink.clone()),
        dead_letters: letters.map(|letters| Box::new(letters.clone()) as Box<dyn SinkFactory>),
        positions: None,
    };
    let pipeline = Pipeline::build(parts, settings, Arc::new(Control::default())).unwrap();
    let meter = pipeline.meter();
    let ended = pipeline.run();
    let committed = committed.lock().unwrap().clone();
    Outcome { ended, meter, committed }
}

/// A transform that denies the event at offset 555.
pub struct Denies;

impl TransformFactory for Denies {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Self))
    }

    fn name(&self) -> &str {
        plimsoll_pipeline::SECURITY
    }
}

impl Transform for Denies {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        batch.sift(|batch, index| match batch.events()[index].offset {
            555 => Fate::Reject(Cause::new(plimsoll_pipeline::SECURITY, CauseClass::Denied, "no")),
            _ => Fate::Keep,
        });
        Ok(())
    }
}
