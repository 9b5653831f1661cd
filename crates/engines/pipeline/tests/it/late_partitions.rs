//! Tests a new partition of a running pipeline whose sink is unavailable.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use plimsoll_pipeline::port::source::Last;
use plimsoll_pipeline::{
    Assignment, Assignments, Ended, Error, Executor, Intake, Partition, Parts, Pipeline, Position, Promise,
    Read, Record, Replay, Settings, Sink, SinkError, SinkFactory, Source, SourceError,
};

use crate::outcome::settings;
use crate::scripted::Scripted;

/// A source that gives one event of a partition and, once it is settled, one event of another partition.
#[derive(Default)]
struct OneByOne {
    assignments: Option<Arc<Assignments>>,
    assignment: Option<Arc<Assignment>>,
    given: u32,
}

impl Source for OneByOne {
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        self.assignments = Some(Arc::clone(assignments));
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        if self.given == 2 {
            return Ok(Read::End);
        }
        if self.assignment.as_ref().is_some_and(|assignment| assignment.waiting() > 0) {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(Read::Idle);
        }
        let partition = Partition::new("t", self.given);
        let (assignment, _) = self.assignments.as_ref().unwrap().open(partition.clone())?;
        let mut batch = intake.batch(&partition);
        batch.push(Record { offset: self.given.into(), ..Record::default() });
        batch.set_position(Position::at(u64::from(self.given) + 1));
        intake.hand_over(&assignment, batch);
        (self.assignment, self.given) = (Some(assignment), self.given + 1);
        Ok(Read::Some)
    }

    fn commit(&mut self, _reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        Ok(())
    }
}

/// A sink factory that fails in the attempts `away`.
struct Away {
    sink: Scripted,
    away: Range<u32>,
    made: Arc<AtomicU32>,
}

impl SinkFactory for Away {
    fn promise(&self) -> Promise {
        self.sink.promise
    }

    fn build(&self, worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        match self.away.contains(&self.made.fetch_add(1, Ordering::Relaxed)) {
            true => Err(SinkError::Unreachable("the server is away".into())),
            false => self.sink.build(worker),
        }
    }
}

/// Runs the source with a sink that is unavailable in these attempts. Returns the end, the number of attempts, and the written
/// events.
fn run(away: Range<u32>) -> (Result<Ended, Error>, u32, Vec<u64>) {
    let (sink, made) = (Scripted::writing(), Arc::new(AtomicU32::new(0)));
    let parts = Parts {
        sources: vec![Box::new(OneByOne::default())],
        transforms: Vec::new(),
        sink: Box::new(Away { sink: sink.clone(), away, made: Arc::clone(&made) }),
        dead_letters: None,
        positions: None,
    };
    let settings = Settings { executor: Executor::PerPartition, ..settings() };
    let ended = Pipeline::build(parts, settings, Arc::default()).unwrap().run();
    (ended, made.load(Ordering::Relaxed), sink.written())
}

#[test]
fn an_unavailable_sink_is_awaited_in_a_running_pipeline_and_refused_at_the_start() {
    let (ended, made, written) = run(1..3);
    assert_eq!((ended.unwrap(), made, written), (Ended::Exhausted, 4, vec![0, 1]));
    let (ended, made, _) = run(0..1);
    assert!(matches!(ended, Err(Error::Sink(SinkError::Unreachable(_)))) && made == 1);
}
