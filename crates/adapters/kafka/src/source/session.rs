//! Runs a group member: assigns and revokes partitions, reads them, and commits offsets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock::{self, Instant};
use plimsoll_pipeline::{Assignments, Intake, Last, Partition, Position, SourceError};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};

use super::fetch::Fetch;
use super::member::{Change, Member};
use super::offset_check;
use super::positions::{failed, number, offset, offsets, partitions};
use super::read_error;
use crate::error::words;
use crate::membership::Membership;

/// The time without free space after which partitions are paused and the group is polled.
const PAUSE_AFTER: Duration = Duration::from_secs(1);
/// The time limit for the last commit, which is repeated because a group refuses commits while it rebalances.
const LAST_MAX: Duration = Duration::from_secs(45);
/// The wait for partitions after which the reason is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(3);
/// The time for which the group is polled between two attempts of the last commit.
const POLL: Duration = Duration::from_millis(50);

/// The settings for revoking partitions.
#[derive(Clone)]
pub(super) struct Revocation {
    /// The longest wait for batches in flight.
    pub(super) settle_limit: Duration,
    /// Set with a sink whose transactions store the offsets: the source then commits none.
    pub(super) membership: Option<Arc<Membership>>,
}

/// The state of an open source.
pub(super) struct Reading {
    consumer: BaseConsumer<Member>,
    group: String,
    lanes: Arc<Assignments>,
    giving: Revocation,
    taking: Fetch,
    /// Positions whose commit is not yet confirmed.
    uncommitted: BTreeMap<Partition, Position>,
    heard_at: Instant,
    on_hold: bool,
    /// The start of the wait for partitions; `None` after the group has assigned some.
    unassigned_since: Option<Instant>,
}

impl Reading {
    pub(super) fn new(
        consumer: BaseConsumer<Member>,
        group: String,
        lanes: Arc<Assignments>,
        topic: Arc<str>,
        giving: Revocation,
    ) -> Self {
        let (taking, heard_at) = (Fetch::of(topic), clock::now());
        Self {
            consumer,
            group,
            lanes,
            giving,
            taking,
            uncommitted: BTreeMap::new(),
            heard_at,
            on_hold: false,
            unassigned_since: Some(heard_at),
        }
    }

    /// Takes messages. The inner error is the library's.
    pub(super) fn take(&mut self, intake: &mut Intake<'_>) -> Result<KafkaResult<usize>, SourceError> {
        let no_room = intake.space().events == 0 || intake.space().bytes == 0;
        if no_room && u128::from(clock::now().since(self.heard_at)) < PAUSE_AFTER.as_nanos() {
            return Ok(Ok(0));
        }
        self.pause(no_room)?;
        let taken = self.taking.take(&self.consumer, &self.lanes, intake);
        self.heard_at = clock::now();
        match self.taking.offset_went_back() {
            Some(error) => Err(error),
            None => Ok(taken),
        }
    }

    /// The reason why nothing is read, if the group has long not assigned partitions.
    pub(super) fn waiting(&self) -> Option<String> {
        let since = self.unassigned_since?;
        waiting(clock::now().since(since), &self.group, self.taking.topic())
    }

    /// Makes the partition changes that the group requested.
    pub(super) fn make_changes(&mut self) -> Result<(), SourceError> {
        while let Some(change) = self.consumer.context().next_change() {
            if let Some(membership) = &self.giving.membership {
                membership.renew(self.consumer.group_metadata());
            }
            match change {
                Change::Assigned(list) => {
                    self.unassigned_since = None;
                    self.take_in(list)?;
                }
                Change::Revoked(list) => self.give_up(&list)?,
                Change::Lost(list) => {
                    self.unassigned_since = Some(clock::now());
                    let partitions = partitions(&list);
                    self.lanes.lose(&partitions);
                    self.forget(&partitions);
                    self.unassign(&list)?;
                }
            }
        }
        Ok(())
    }

    fn take_in(&mut self, mut list: TopicPartitionList) -> Result<(), SourceError> {
        // New partitions are not paused, so the others must not be either: the next turn without free space
        // pauses all of them.
        self.pause(false)?;
        for partition in partitions(&list) {
            let (_, kept) = self.lanes.open(partition.clone())?;
            if let Some(kept) = kept {
                let at = list.set_partition_offset(&partition.topic, number(&partition), offset(&kept));
                failed("seeking to the stored offsets", at)?;
            }
        }
        offset_check::check(&self.consumer, &self.group, &list)?;
        let taken = match self.is_cooperative() {
            true => self.consumer.incremental_assign(&list),
            false => self.consumer.assign(&list),
        };
        failed("assigning partitions", taken)
    }

    fn give_up(&mut self, list: &TopicPartitionList) -> Result<(), SourceError> {
        let partitions = partitions(list);
        let reached = self.lanes.revoke(&partitions, self.giving.settle_limit);
        let mut last = self.forget(&partitions);
        last.extend(reached);
        if self.giving.membership.is_none() && !last.is_empty() {
            // The next member reads from here: uncommitted records are read twice, none is lost.
            let _ = self.consumer.commit(&offsets(&last)?, CommitMode::Sync);
        }
        self.unassign(list)
    }

    /// Forgets partitions; returns their positions without a confirmed commit.
    fn forget(&mut self, partitions: &[Partition]) -> BTreeMap<Partition, Position> {
        if let Some(membership) = &self.giving.membership {
            membership.release(partitions);
        }
        partitions.iter().filter_map(|partition| self.uncommitted.remove_entry(partition)).collect()
    }

    fn unassign(&self, list: &TopicPartitionList) -> Result<(), SourceError> {
        if self.on_hold {
            // The library keeps a pause beyond the assignment: a partition that is assigned again would never
            // be read.
            failed("resuming partitions", self.consumer.resume(list))?;
        }
        let given = match self.is_cooperative() {
            true => self.consumer.incremental_unassign(list),
            false => self.consumer.unassign(),
        };
        failed("revoking partitions", given)
    }

    fn is_cooperative(&self) -> bool {
        matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }

    /// Pauses or resumes all partitions. The library drops its fetched records at a pause, so pauses are
    /// rare.
    fn pause(&mut self, pause: bool) -> Result<(), SourceError> {
        if pause == self.on_hold {
            return Ok(());
        }
        let all = self.consumer.assignment();
        let done =
            all.and_then(|all| if pause { self.consumer.pause(&all) } else { self.consumer.resume(&all) });
        self.on_hold = pause;
        failed("holding partitions", done)?;
        if pause { Ok(()) } else { self.recheck_positions() }
    }

    /// Checks that the next offsets still exist: retention continues while partitions are paused, and the
    /// library discards its errors for paused partitions.
    fn recheck_positions(&self) -> Result<(), SourceError> {
        offset_check::check_positions(&self.consumer, &self.group, self.taking.places(&self.lanes))
    }

    /// Commits positions, either asynchronously or before it returns.
    pub(super) fn commit(
        &mut self,
        reached: &[(Partition, Position)],
        last: Last,
    ) -> Result<(), SourceError> {
        self.uncommitted.extend(reached.iter().cloned());
        match last {
            Last::No => self.send_commit(),
            Last::Yes => self.commit_now(),
        }
    }

    /// Requests a commit; a later turn receives the answer.
    fn send_commit(&self) -> Result<(), SourceError> {
        if !self.uncommitted.is_empty() {
            // An immediate refusal is transient: the group has no coordinator at present. The next call
            // retries.
            let _ = self.consumer.commit(&offsets(&self.uncommitted)?, CommitMode::Async);
        }
        Ok(())
    }

    /// Commits, and makes the changes that the group requests meanwhile.
    fn commit_now(&mut self) -> Result<(), SourceError> {
        let began = clock::now();
        while !self.uncommitted.is_empty() {
            let Err(error) = self.consumer.commit(&offsets(&self.uncommitted)?, CommitMode::Sync) else {
                self.uncommitted.clear();
                return Ok(());
            };
            let late = u128::from(clock::now().since(began)) >= LAST_MAX.as_nanos();
            // An aborted pipeline does not wait for a broker that is down.
            if late || self.lanes.is_over() {
                return Err(uncommitted(&error));
            }
            self.pause(true)?;
            if let Some(Err(error)) = self.consumer.poll(POLL) {
                read_error::classify(&error, self.taking.topic(), &self.group)?;
            }
            self.make_changes()?;
        }
        Ok(())
    }

    /// Removes committed positions; the others are committed again.
    pub(super) fn note_commits(&mut self) -> Result<(), SourceError> {
        let mut again = false;
        while let Some((kept, partitions)) = self.consumer.context().next_commit() {
            match kept {
                Ok(()) => {
                    self.uncommitted.retain(|at, to| partitions.get(at).is_none_or(|kept| to.next > *kept))
                }
                Err(_) => again = true,
            }
        }
        if again { self.send_commit() } else { Ok(()) }
    }
}

/// The reason why nothing is read, if the group has assigned no partitions for longer than [`SHOWN_AFTER`].
fn waiting(waited_ns: u64, group: &str, topic: &str) -> Option<String> {
    (u128::from(waited_ns) > SHOWN_AFTER.as_nanos()).then(|| {
        format!(
            "group {group:?} has not assigned partitions of {topic:?} yet: it waits for its other members, and for a killed one until \
             its session ends (10 s, or `session.timeout.ms`)"
        )
    })
}

fn uncommitted(error: &KafkaError) -> SourceError {
    let reason = words(error);
    SourceError::Failed(format!(
        "the last offsets could not be committed ({reason}): later records are read again"
    ))
}

impl Drop for Reading {
    fn drop(&mut self) {
        // A dropped consumer leaves its group, so no later turn revokes its partitions in order.
        self.consumer.context().close();
        while let Some(Change::Assigned(list) | Change::Revoked(list) | Change::Lost(list)) =
            self.consumer.context().next_change()
        {
            // The library waits for each confirmation; a failure is harmless: the consumer is dropped.
            let _ = self.unassign(&list);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::SECOND_NS;

    use super::*;
    use crate::source::SESSION_MS;

    #[test]
    fn a_wait_for_partitions_is_explained_after_three_seconds_with_the_limit_of_a_session() {
        assert_eq!(waiting(0, "g", "t"), None);
        assert_eq!(waiting(3 * SECOND_NS, "g", "t"), None);
        let session_s = SESSION_MS.parse::<u64>().unwrap() / 1000;
        let expected = format!(
            "group \"g\" has not assigned partitions of \"t\" yet: it waits for its other members, and for a killed one until \
             its session ends ({session_s} s, or `session.timeout.ms`)"
        );
        for waited_ns in [3 * SECOND_NS + 1, 60 * SECOND_NS] {
            assert_eq!(waiting(waited_ns, "g", "t"), Some(expected.clone()), "{waited_ns} ns");
        }
    }
}
