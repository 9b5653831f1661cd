//! Runs a group member: takes and gives up partitions, reads them, and commits offsets.

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

/// How long there may be no room before partitions are paused and the group is polled.
const UNHEARD_MAX: Duration = Duration::from_secs(1);
/// The limit of the last commit: a rebalancing group refuses it.
const LAST_MAX: Duration = Duration::from_secs(45);
/// How long the group is polled between two tries.
const LISTEN: Duration = Duration::from_millis(50);

/// How to give up partitions.
#[derive(Clone)]
pub(super) struct Giving {
    /// The longest wait for batches in flight.
    pub(super) settle_limit: Duration,
    /// Set with a sink whose transactions store the offsets: the source commits none.
    pub(super) membership: Option<Arc<Membership>>,
}

/// The state of an open source.
pub(super) struct Reading {
    consumer: BaseConsumer<Member>,
    group: String,
    lanes: Arc<Assignments>,
    giving: Giving,
    taking: Fetch,
    /// Positions whose commit is not yet confirmed.
    unkept: BTreeMap<Partition, Position>,
    heard_at: Instant,
    on_hold: bool,
}

impl Reading {
    pub(super) fn new(
        consumer: BaseConsumer<Member>,
        group: String,
        lanes: Arc<Assignments>,
        topic: Arc<str>,
        giving: Giving,
    ) -> Self {
        let (taking, heard_at) = (Fetch::of(topic), clock::now());
        Self { consumer, group, lanes, giving, taking, unkept: BTreeMap::new(), heard_at, on_hold: false }
    }

    /// Takes messages. The inner error is the library's.
    pub(super) fn take(&mut self, intake: &mut Intake<'_>) -> Result<KafkaResult<usize>, SourceError> {
        let no_room = intake.space().events == 0 || intake.space().bytes == 0;
        if no_room && u128::from(clock::now().since(self.heard_at)) < UNHEARD_MAX.as_nanos() {
            return Ok(Ok(0));
        }
        self.hold(no_room)?;
        let taken = self.taking.take(&self.consumer, &self.lanes, intake);
        self.heard_at = clock::now();
        match self.taking.went_back() {
            Some(error) => Err(error),
            None => Ok(taken),
        }
    }

    /// Makes the changes of partitions that the group asked for.
    pub(super) fn make_changes(&mut self) -> Result<(), SourceError> {
        while let Some(change) = self.consumer.context().next_change() {
            if let Some(membership) = &self.giving.membership {
                membership.renew(self.consumer.group_metadata());
            }
            match change {
                Change::Assigned(list) => self.take_in(list)?,
                Change::Revoked(list) => self.give_up(&list)?,
                Change::Lost(list) => {
                    let partitions = partitions(&list);
                    self.lanes.lose(&partitions);
                    self.let_go(&partitions);
                    self.unassign(&list)?;
                }
            }
        }
        Ok(())
    }

    fn take_in(&mut self, mut list: TopicPartitionList) -> Result<(), SourceError> {
        // Those that come are not on hold, so those that stay must not be: the next turn without room holds all of them.
        self.hold(false)?;
        for partition in partitions(&list) {
            let (_, kept) = self.lanes.open(partition.clone())?;
            if let Some(kept) = kept {
                let at = list.set_partition_offset(&partition.topic, number(&partition), offset(&kept));
                failed("beginning where it ended", at)?;
            }
        }
        offset_check::check(&self.consumer, &self.group, &list)?;
        let taken = match self.is_cooperative() {
            true => self.consumer.incremental_assign(&list),
            false => self.consumer.assign(&list),
        };
        failed("taking partitions in", taken)
    }

    fn give_up(&mut self, list: &TopicPartitionList) -> Result<(), SourceError> {
        let partitions = partitions(list);
        let reached = self.lanes.revoke(&partitions, self.giving.settle_limit);
        let mut last = self.let_go(&partitions);
        last.extend(reached);
        if self.giving.membership.is_none() && !last.is_empty() {
            // The next member reads from here: what cannot be committed now is read twice, nothing is lost.
            let _ = self.consumer.commit(&offsets(&last)?, CommitMode::Sync);
        }
        self.unassign(list)
    }

    /// Forgets partitions; gives the positions that are not known to be committed.
    fn let_go(&mut self, partitions: &[Partition]) -> BTreeMap<Partition, Position> {
        if let Some(membership) = &self.giving.membership {
            membership.release(partitions);
        }
        partitions.iter().filter_map(|partition| self.unkept.remove_entry(partition)).collect()
    }

    fn unassign(&self, list: &TopicPartitionList) -> Result<(), SourceError> {
        if self.on_hold {
            // The library remembers a hold beyond the assignment: a partition that comes back would never be read again.
            failed("letting partitions go on", self.consumer.resume(list))?;
        }
        let given = match self.is_cooperative() {
            true => self.consumer.incremental_unassign(list),
            false => self.consumer.unassign(),
        };
        failed("giving partitions up", given)
    }

    fn is_cooperative(&self) -> bool {
        matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }

    /// Holds all partitions, or lets them go on. The library drops what it fetched when it holds, so this is rare.
    fn hold(&mut self, hold: bool) -> Result<(), SourceError> {
        if hold == self.on_hold {
            return Ok(());
        }
        let all = self.consumer.assignment();
        let done =
            all.and_then(|all| if hold { self.consumer.pause(&all) } else { self.consumer.resume(&all) });
        self.on_hold = hold;
        failed("holding partitions", done)?;
        if hold { Ok(()) } else { self.look_again() }
    }

    /// Whether what is read next is still there: retention goes on while partitions are on hold, and the library throws away
    /// what it has to say of those.
    fn look_again(&self) -> Result<(), SourceError> {
        offset_check::look(&self.consumer, &self.group, self.taking.places(&self.lanes))
    }

    /// Commits positions: at some time, or before it returns.
    pub(super) fn commit(
        &mut self,
        reached: &[(Partition, Position)],
        last: Last,
    ) -> Result<(), SourceError> {
        self.unkept.extend(reached.iter().cloned());
        match last {
            Last::No => self.send_commit(),
            Last::Yes => self.commit_now(),
        }
    }

    /// Asks for a commit; the answer comes with a later turn.
    fn send_commit(&self) -> Result<(), SourceError> {
        if !self.unkept.is_empty() {
            // An immediate refusal is transient: there is no coordinator at the moment. The next call retries.
            let _ = self.consumer.commit(&offsets(&self.unkept)?, CommitMode::Async);
        }
        Ok(())
    }

    /// Commits, and goes through with what the group asks for meanwhile.
    fn commit_now(&mut self) -> Result<(), SourceError> {
        let began = clock::now();
        while !self.unkept.is_empty() {
            let Err(error) = self.consumer.commit(&offsets(&self.unkept)?, CommitMode::Sync) else {
                self.unkept.clear();
                return Ok(());
            };
            let late = u128::from(clock::now().since(began)) >= LAST_MAX.as_nanos();
            // Whoever ends it at once does not wait for a broker that is away.
            if late || self.lanes.is_over() {
                return Err(uncommitted(&error));
            }
            self.hold(true)?;
            if let Some(Err(error)) = self.consumer.poll(LISTEN) {
                read_error::judge(&error, self.taking.topic(), &self.group)?;
            }
            self.make_changes()?;
        }
        Ok(())
    }

    /// Forgets committed positions; the others are committed again.
    pub(super) fn note_commits(&mut self) -> Result<(), SourceError> {
        let mut again = false;
        while let Some((kept, partitions)) = self.consumer.context().next_commit() {
            match kept {
                Ok(()) => self.unkept.retain(|at, to| partitions.get(at).is_none_or(|kept| to.next > *kept)),
                Err(_) => again = true,
            }
        }
        if again { self.send_commit() } else { Ok(()) }
    }
}

fn uncommitted(error: &KafkaError) -> SourceError {
    let reason = words(error);
    SourceError::Failed(format!(
        "the last offsets could not be committed ({reason}): what lies behind them is read again"
    ))
}

impl Drop for Reading {
    fn drop(&mut self) {
        // The consumer leaves its group when it is dropped, and nobody is left who would give partitions up in order.
        self.consumer.context().close();
        while let Some(Change::Assigned(list) | Change::Revoked(list) | Change::Lost(list)) =
            self.consumer.context().next_change()
        {
            // The library waits for an answer to each; whatever it is, everything is given up next.
            let _ = self.unassign(&list);
        }
    }
}
