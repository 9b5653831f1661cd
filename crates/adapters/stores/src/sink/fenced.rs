//! Holds batches of partitions that another process took over.
//!
//! This is not a failure: the group moved the partition, and this process will be notified. Until then its batches are held while
//! other partitions continue. If no notification arrives, two pipelines of the same name are running, and this pipeline
//! stops.

use plimsoll_measure::clock::{Instant, SECOND_NS};
use plimsoll_pipeline::{Batch, FailureClass, Partition, Settled, Verdict};

/// The time limit for the notification of a lost partition.
const UNKNOWING_NS: u64 = 10 * SECOND_NS;

/// Batches that must not be written.
#[derive(Debug, Default)]
pub struct Fenced(Vec<Held>);

#[derive(Debug)]
struct Held {
    batch: Batch,
    since: Instant,
}

impl Fenced {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Holds batches.
    pub fn hold(&mut self, batches: impl IntoIterator<Item = Batch>, now: Instant) {
        self.0.extend(batches.into_iter().map(|batch| Held { batch, since: now }));
    }

    /// Holds a batch if other batches of its assignment are held; returns it otherwise.
    pub fn join(&mut self, batch: Batch) -> Option<Batch> {
        let (partition, epoch) = (batch.position_partition(), batch.epoch());
        let same = |held: &&Held| held.batch.position_partition() == partition && held.batch.epoch() == epoch;
        let Some(since) = self.0.iter().find(same).map(|held| held.since) else { return Some(batch) };
        self.0.push(Held { batch, since });
        None
    }

    /// Releases revoked batches, which their new owner reads again, and overdue batches as failed.
    pub fn release(&mut self, now: Instant) -> Vec<Settled> {
        let (mut free, mut held) = (Vec::new(), Vec::new());
        for one in std::mem::take(&mut self.0) {
            match verdict(&one.batch, now.since(one.since)) {
                Some(verdict) => free.push(Settled { batch: one.batch, verdict }),
                None => held.push(one),
            }
        }
        self.0 = held;
        free
    }
}

fn verdict(batch: &Batch, held_ns: u64) -> Option<Verdict> {
    match batch.is_revoked() {
        true => Some(Verdict::Revoked),
        false if held_ns >= UNKNOWING_NS => {
            Some(Verdict::failed(FailureClass::Final, kept(batch.position_partition())))
        }
        false => None,
    }
}

fn kept(partition: &Partition) -> String {
    format!(
        "another process took over {partition}, and this process was not notified within {} s: is a second pipeline of this \
         name running? Give each its own name, or let them share one group",
        UNKNOWING_NS / SECOND_NS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(partition: u32) -> Batch {
        Batch::new(Partition::new("t", partition))
    }

    #[test]
    fn a_takeover_without_notification_is_final_only_after_a_while() {
        let (mut fenced, start) = (Fenced::default(), Instant::default());
        fenced.hold([batch(0)], start);
        assert!(fenced.release(start + (UNKNOWING_NS - 1)).is_empty());
        assert!(fenced.join(batch(1)).is_some(), "other partitions go on");
        assert!(fenced.join(batch(0)).is_none(), "later batches wait as well");
        let settled = fenced.release(start + UNKNOWING_NS);
        assert!(fenced.is_empty());
        assert_eq!(settled.len(), 2);
        for Settled { verdict, .. } in settled {
            let Verdict::Failed(failure) = verdict else { panic!("it was written") };
            assert_eq!(failure.class, FailureClass::Final);
            assert!(failure.reason.contains("took over t/0"), "{failure:?}");
        }
    }
}
