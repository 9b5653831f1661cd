//! Remembers events that become dead letters again during a replay: their letters must stay.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::event::Batch;
use crate::port::sink::{Promise, Settled, Sink, SinkError, SinkFactory, Verdict};
use crate::position::Partition;

/// The events that became dead letters again, by the partition and offset of their first reading.
#[derive(Debug, Default)]
pub struct RepeatedLetters(Mutex<BTreeSet<(Partition, u64)>>);

impl RepeatedLetters {
    /// Whether an event became a dead letter again. Forgets the event.
    pub fn take(&self, event: &(Partition, u64)) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(event)
    }

    fn note(&self, letters: &Batch) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.extend(letters.events().iter().map(|event| (letters.partition().clone(), event.offset)));
    }
}

/// A sink of dead letters that records the events it wrote.
pub struct RepeatRecorder {
    /// The underlying sink.
    pub letters: Box<dyn SinkFactory>,
    /// The record of events.
    pub repeated: Arc<RepeatedLetters>,
}

impl SinkFactory for RepeatRecorder {
    fn promise(&self) -> Promise {
        self.letters.promise()
    }

    fn build(&self, worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Writer { sink: self.letters.build(worker)?, repeated: Arc::clone(&self.repeated) }))
    }
}

struct Writer {
    sink: Box<dyn Sink>,
    repeated: Arc<RepeatedLetters>,
}

impl Sink for Writer {
    fn capacity(&self) -> usize {
        self.sink.capacity()
    }

    fn submit(&mut self, batch: Batch) {
        self.sink.submit(batch);
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        let settled = self.sink.settle(wait)?;
        if matches!(settled.verdict, Verdict::Written { .. }) {
            self.repeated.note(&settled.batch);
        }
        Some(settled)
    }

    fn flush(&mut self) {
        self.sink.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::sink::Noop;

    #[test]
    fn a_repeated_letter_is_reported_once() {
        let repeated = Arc::new(RepeatedLetters::default());
        let recorder = RepeatRecorder { letters: Box::new(Noop), repeated: Arc::clone(&repeated) };
        let mut batch = Batch::new(Partition::new("t", 1));
        batch.push(Record { offset: 7, ..Record::default() });
        let mut sink = recorder.build(0).unwrap();
        sink.submit(batch);
        assert!(!repeated.take(&(Partition::new("t", 1), 7)), "nothing is durable yet");
        sink.settle(Duration::ZERO).unwrap();
        assert!(repeated.take(&(Partition::new("t", 1), 7)));
        assert!(!repeated.take(&(Partition::new("t", 1), 7)));
    }
}
