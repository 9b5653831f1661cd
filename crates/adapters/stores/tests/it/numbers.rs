//! Provides a source of numbered events that resumes from a store, and pipelines of it.

use std::sync::Arc;

use plimsoll_pipeline::engine::Retry;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{
    Assignment, Assignments, Control, Ended, Error, Executor, Intake, Last, Partition, Parts, Pipeline,
    Position, PositionStore, Read, Record, Replay, Settings, SinkFactory, Source, SourceError,
};

use crate::bench::payload;

/// Some partitions of `t`, each with the same numbers from 0 on.
pub struct Numbers {
    partitions: u32,
    end: u64,
    batch: u64,
    open: Vec<(Arc<Assignment>, u64)>,
}

impl Numbers {
    pub fn new(partitions: u32, end: u64, batch: u64) -> Self {
        Self { partitions, end, batch, open: Vec::new() }
    }
}

impl Source for Numbers {
    fn replay(&self) -> Replay {
        Replay::FromStore
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        for index in 0..self.partitions {
            let (assignment, from) = assignments.open(Partition::new("t", index))?;
            self.open.push((assignment, from.map_or(0, |position| position.next)));
        }
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let mut read = Read::End;
        for (assignment, next) in &mut self.open {
            let end = self.end.min(*next + self.batch.min(intake.space().events as u64));
            if *next < self.end {
                read = Read::Idle;
            }
            if end == *next {
                continue;
            }
            let mut batch = intake.batch(assignment.partition());
            for offset in *next..end {
                // Each number is unique across all partitions.
                let payload =
                    payload(offset * u64::from(self.partitions) + u64::from(assignment.partition().index));
                batch.push(Record { offset, appended_ms: 1, key: None, payload: Some(&payload) });
            }
            batch.set_position(Position::at(end));
            intake.hand_over(assignment, batch);
            *next = end;
            read = Read::Some;
        }
        Ok(read)
    }

    fn commit(&mut self, _: &[(Partition, Position)], _: Last) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Runs a pipeline from `Numbers` to a sink.
pub fn run(
    numbers: impl Source + 'static,
    sink: impl SinkFactory + 'static,
    positions: impl PositionStore + 'static,
    control: &Arc<Control>,
) -> Result<Ended, Error> {
    let parts = Parts {
        sources: vec![Box::new(numbers)],
        transforms: vec![],
        sink: Box::new(sink),
        dead_letters: None,
        positions: Some(Arc::new(positions)),
    };
    let settings = Settings {
        guarantee: Guarantee::EffectivelyOnce,
        executor: Executor::Pool(2),
        retry: Retry { pause_ns_max: 200_000_000, ..Retry::default() },
        ..Settings::default()
    };
    Pipeline::build(parts, settings, Arc::clone(control))?.run()
}
