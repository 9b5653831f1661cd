//! Tests that a panic ends the pipeline with its message, and no thread waits for the panicked one.

use std::sync::Arc;

use plimsoll_pipeline::{
    Assignments, Batch, Error, Intake, Last, Partition, Parts, Pipeline, Position, Read, Replay, Settings,
    Source, SourceError, Transform, TransformError, TransformFactory,
};

use crate::scripted::{Counting, Scripted};

struct Panics;

impl TransformFactory for Panics {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Self))
    }

    fn name(&self) -> &str {
        "panics"
    }
}

impl Transform for Panics {
    fn apply(&mut self, _batch: &mut Batch) -> Result<(), TransformError> {
        panic!("of a transform")
    }
}

impl Source for Panics {
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, _lanes: &Arc<Assignments>) -> Result<(), SourceError> {
        Ok(())
    }

    fn read(&mut self, _intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        panic!("of a source")
    }

    fn commit(&mut self, _reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        Ok(())
    }
}

fn check(source: Box<dyn Source>, transforms: Vec<Box<dyn TransformFactory>>, expected: &str) {
    let parts = Parts {
        sources: vec![source],
        transforms,
        sink: Box::new(Scripted::writing()),
        dead_letters: None,
        positions: None,
    };
    let error = Pipeline::build(parts, Settings::default(), Arc::default()).unwrap().run().unwrap_err();
    assert!(matches!(&error, Error::Thread(words) if words.contains(expected)), "{error}");
}

#[test]
fn a_panic_ends_the_pipeline_with_its_message() {
    check(Box::new(Counting::new(1000, 10)), vec![Box::new(Panics)], "panicked (of a transform)");
    check(Box::new(Panics), Vec::new(), "panicked (of a source)");
}
