//! Adds up the shards of one plan as one process, second by second, from their records.

use crate::engine::{Collector, Finished, Second};

/// A shard's record of a phase.
pub trait Record {
    /// The error of an unreadable record.
    type Error;

    /// The next second of the phase; none when it has ended.
    ///
    /// # Errors
    /// The record is damaged.
    fn second(&mut self) -> Result<Option<Second>, Self::Error>;

    /// The leftover tenths of the phase, if they are the next entry.
    ///
    /// # Errors
    /// The record is damaged.
    fn rest(&mut self) -> Result<Option<Second>, Self::Error>;

    /// The end of the phase, after its last second.
    ///
    /// # Errors
    /// Another entry comes next.
    fn leave(&mut self) -> Result<Finished, Self::Error>;
}

/// A shard in a phase.
#[derive(Debug)]
pub struct Entry<R> {
    /// The number of workers, whether the shard reached the phase or not.
    pub workers: usize,
    /// The record; none if the shard did not reach this phase.
    pub record: Option<R>,
}

/// Adds up a phase of all shards, and passes its seconds to `sink` in order; returns its end. Buffers at most
/// one second of a shard that the others have not delivered yet.
///
/// # Errors
/// One of the records is damaged.
pub fn join<R: Record>(entries: &mut [Entry<R>], mut sink: impl FnMut(Second)) -> Result<Finished, R::Error> {
    let workers: Vec<_> = entries.iter().map(|entry| entry.workers).collect();
    let mut collector = Collector::of(&workers);
    let mut left: Vec<bool> = entries.iter().map(|entry| entry.record.is_some()).collect();
    let absent = left.iter().enumerate().filter(|(_, is_left)| !**is_left);
    absent.for_each(|(index, _)| collector.end(index));
    while left.contains(&true) {
        for (index, entry) in entries.iter_mut().enumerate() {
            let Some(record) = entry.record.as_mut().filter(|_| left[index]) else { continue };
            match record.second()? {
                Some(second) => collector.add(index, second),
                None => {
                    collector.end(index);
                    left[index] = false;
                }
            }
            record.rest()?.into_iter().for_each(|rest| collector.add(index, rest));
        }
        while let Some(second) = collector.complete() {
            sink(second);
        }
    }
    collector.finish().into_iter().for_each(sink);
    let mut finished = Finished::default();
    for record in entries.iter_mut().filter_map(|entry| entry.record.as_mut()) {
        finished.merge(&record.leave()?);
    }
    Ok(finished)
}
