//! Copies messages from the client library into batches, each once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::{
    Assignment, Assignments, Batch, Cause, CauseClass, Clock, Fate, Intake, Partition, Position, Record,
    SourceError,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Headers, Message, Timestamp};

use super::member::Member;
use super::offset_check;

/// The batches of one poll.
pub(super) struct Fetch {
    topic: Arc<str>,
    /// One batch for each partition with a message in this poll.
    open: Vec<Open>,
    events: usize,
    bytes: usize,
    /// For each partition: the number of its assignment, and the next offset within this assignment.
    reached: BTreeMap<u32, (usize, u64)>,
    /// A partition that returned a lower offset than expected: the expected and the received offset.
    back: Option<(Partition, u64, u64)>,
}

/// A batch that is being filled.
struct Open {
    lane: Arc<Assignment>,
    batch: Batch,
    /// The lowest offset that may follow.
    next: u64,
    /// The offsets of records whose headers cannot be read.
    unreadable: Vec<u64>,
}

impl Fetch {
    pub(super) fn of(topic: Arc<str>) -> Self {
        Self { topic, open: Vec::new(), events: 0, bytes: 0, reached: BTreeMap::new(), back: None }
    }

    /// The topic of the source.
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// The next offsets of the partitions that are still assigned.
    pub(super) fn places(&self, lanes: &Assignments) -> Vec<(Partition, u64)> {
        let place = |(number, (assignment, next)): (&u32, &(usize, u64))| {
            let partition = Partition::new(Arc::clone(&self.topic), *number);
            let lane = lanes.get(&partition)?;
            (lane.number() == *assignment).then_some((partition, *next))
        };
        self.reached.iter().filter_map(place).collect()
    }

    /// The error of a partition that returned a lower offset than expected, if any.
    pub(super) fn offset_went_back(&mut self) -> Option<SourceError> {
        self.back
            .take()
            .map(|(partition, next, offset)| offset_check::offset_went_back(&partition, next, offset))
    }

    /// Takes as many available messages as fit; waits only for the first one. Returns the number of messages.
    pub(super) fn take(
        &mut self,
        consumer: &BaseConsumer<Member>,
        lanes: &Assignments,
        intake: &mut Intake<'_>,
    ) -> Result<usize, KafkaError> {
        (self.events, self.bytes) = (0, 0);
        let (room, mut wait) = (intake.space(), intake.wait());
        let mut trouble = Ok(());
        while trouble.is_ok() && self.back.is_none() && !consumer.context().is_changing() {
            match consumer.poll(wait) {
                Some(Ok(message)) => self.add(&message, lanes, intake),
                Some(Err(error)) => trouble = Err(error),
                None => break,
            }
            wait = Duration::ZERO;
            if self.events >= room.events || self.bytes >= room.bytes {
                break;
            }
        }
        while let Some(open) = self.open.pop() {
            self.hand_over(open, intake);
        }
        trouble.map(|()| self.events)
    }

    fn add(&mut self, message: &BorrowedMessage<'_>, lanes: &Assignments, intake: &mut Intake<'_>) {
        let number = message.partition().unsigned_abs();
        let known = self.open.iter().position(|open| open.lane.partition().index == number);
        let Some(at) = known.or_else(|| self.begin(number, lanes, intake)) else { return };
        let (open, offset) = (&mut self.open[at], u64::try_from(message.offset()).unwrap_or_default());
        if offset < open.next {
            self.back = Some((open.lane.partition().clone(), open.next, offset));
            return;
        }
        self.bytes += open.copy(message, offset);
        self.events += 1;
        if open.batch.events_read() >= intake.limits().batch_events_max {
            let full = self.open.swap_remove(at);
            self.hand_over(full, intake);
        }
    }

    fn hand_over(&mut self, open: Open, intake: &mut Intake<'_>) {
        self.reached.insert(open.lane.partition().index, (open.lane.number(), open.next));
        if open.batch.events_read() > 0 {
            open.hand_over(intake);
        }
    }

    /// Begins a batch for an assigned partition; messages of other partitions are ignored.
    fn begin(&mut self, number: u32, lanes: &Assignments, intake: &mut Intake<'_>) -> Option<usize> {
        let partition = Partition::new(Arc::clone(&self.topic), number);
        let lane = lanes.get(&partition)?;
        let reached = self.reached.get(&number).filter(|(assignment, _)| *assignment == lane.number());
        let next = reached.map_or(0, |(_, next)| *next);
        self.open.push(Open { lane, batch: intake.batch(&partition), next, unreadable: Vec::new() });
        Some(self.open.len() - 1)
    }
}

impl Open {
    /// Copies a message; returns its bytes.
    fn copy(&mut self, message: &BorrowedMessage<'_>, offset: u64) -> usize {
        self.next = offset + 1;
        let before = self.batch.bytes();
        let (appended_ms, clock) = origin(message.timestamp());
        self.batch.set_clock(clock);
        let record = Record { offset, appended_ms, key: message.key(), payload: message.payload() };
        match message.headers().map(headers) {
            None => self.batch.push(record),
            Some(Some(headers)) => self.batch.push_with(record, headers),
            Some(None) => {
                self.unreadable.push(record.offset);
                self.batch.push(record);
            }
        }
        self.batch.bytes() - before
    }

    /// Hands the batch over. Its position follows the last message, even if the headers of that message cannot be read.
    fn hand_over(mut self, intake: &mut Intake<'_>) {
        self.batch.set_position(Position::at(self.next));
        self.add_unreadable();
        intake.hand_over(&self.lane, self.batch);
    }

    /// An unreadable record becomes a dead letter.
    fn add_unreadable(&mut self) {
        if self.unreadable.is_empty() {
            return;
        }
        self.batch.sift(|batch, index| match self.unreadable.contains(&batch.events()[index].offset) {
            true => {
                let words = "the name of a header is not UTF-8";
                Fate::Reject(Cause::new("source", CauseClass::Invalid, words))
            }
            false => Fate::Keep,
        });
    }
}

/// The time of a record's origin in milliseconds since 1970 UTC, and the clock that gave it.
pub(super) fn origin(timestamp: Timestamp) -> (u64, Clock) {
    let clock = match timestamp {
        Timestamp::LogAppendTime(_) => Clock::Source,
        Timestamp::CreateTime(_) => Clock::Producer,
        Timestamp::NotAvailable => Clock::Here,
    };
    let ms = timestamp.to_millis().and_then(|ms| u64::try_from(ms).ok());
    ms.map_or_else(|| (clock::wall_ms(), Clock::Here), |ms| (ms, clock))
}

/// A header: its name, and its value if it has one.
pub(super) type Header<'a> = (&'a str, Option<&'a [u8]>);

/// Reads the headers of a record; none if a name is not UTF-8. The library's wrapper panics at such a name,
/// and a record must not end the pipeline.
pub(super) fn headers(headers: &BorrowedHeaders) -> Option<Vec<Header<'_>>> {
    catch_unwind(AssertUnwindSafe(|| headers.iter().map(|header| (header.key, header.value)).collect())).ok()
}
