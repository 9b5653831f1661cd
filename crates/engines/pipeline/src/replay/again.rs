//! Events that become dead letters again while they are replayed: their letters must stay.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::event::Batch;
use crate::place::Partition;
use crate::port::sink::{Promise, Settled, Sink, SinkError, SinkFactory, Verdict};

/// The events that became dead letters again, by where they were read first.
#[derive(Debug, Default)]
pub struct Again(Mutex<BTreeSet<(Partition, u64)>>);

impl Again {
    /// Whether an event did; it is forgotten then.
    pub fn take(&self, event: &(Partition, u64)) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(event)
    }

    fn note(&self, letters: &Batch) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.extend(letters.events().iter().map(|event| (letters.partition().clone(), event.offset)));
    }
}

/// A sink of dead letters that notes which events it wrote.
pub struct Noting {
    /// The sink.
    pub letters: Box<dyn SinkFactory>,
    /// Where it is noted.
    pub again: Arc<Again>,
}

impl SinkFactory for Noting {
    fn promise(&self) -> Promise {
        self.letters.promise()
    }

    fn build(&self, worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Writer { sink: self.letters.build(worker)?, again: Arc::clone(&self.again) }))
    }
}

struct Writer {
    sink: Box<dyn Sink>,
    again: Arc<Again>,
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
            self.again.note(&settled.batch);
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
    fn what_was_buried_again_is_known_once() {
        let again = Arc::new(Again::default());
        let noting = Noting { letters: Box::new(Noop), again: Arc::clone(&again) };
        let mut batch = Batch::new(Partition::new("t", 1));
        batch.push(Record { offset: 7, ..Record::default() });
        let mut sink = noting.build(0).unwrap();
        sink.submit(batch);
        assert!(!again.take(&(Partition::new("t", 1), 7)), "nothing is durable yet");
        sink.settle(Duration::ZERO).unwrap();
        assert!(again.take(&(Partition::new("t", 1), 7)));
        assert!(!again.take(&(Partition::new("t", 1), 7)));
    }
}
