//! Takes messages from the client library into batches: each is copied once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_pipeline::{
    Batch, Cause, CauseClass, Event, Fate, Intake, Lane, Lanes, Partition, Position, Record,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Headers, Message};

use super::member::Member;

/// The batches of one turn.
pub(super) struct Taking {
    topic: Arc<str>,
    /// One for each partition that had a message in this turn.
    open: Vec<Open>,
    events: usize,
    bytes: usize,
}

/// A batch that is being filled.
struct Open {
    lane: Arc<Lane>,
    batch: Batch,
    /// The offsets of records whose headers cannot be read.
    unreadable: Vec<u64>,
}

impl Taking {
    pub(super) fn of(topic: Arc<str>) -> Self {
        Self { topic, open: Vec::new(), events: 0, bytes: 0 }
    }

    /// Takes what is there, as much as there is room for; waits for the first message only. Says how many it took.
    pub(super) fn take(
        &mut self,
        consumer: &BaseConsumer<Member>,
        lanes: &Lanes,
        intake: &mut Intake<'_>,
    ) -> Result<usize, KafkaError> {
        (self.events, self.bytes) = (0, 0);
        let (room, mut wait) = (intake.space(), intake.wait());
        let mut trouble = Ok(());
        while trouble.is_ok() && !consumer.context().is_changing() {
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
        self.open.drain(..).for_each(|open| open.hand_over(intake));
        trouble.map(|()| self.events)
    }

    fn add(&mut self, message: &BorrowedMessage<'_>, lanes: &Lanes, intake: &mut Intake<'_>) {
        let number = message.partition().unsigned_abs();
        let known = self.open.iter().position(|open| open.lane.partition().index == number);
        let Some(at) = known.or_else(|| self.begin(number, lanes, intake)) else { return };
        self.bytes += self.open[at].copy(message);
        self.events += 1;
        if self.open[at].batch.taken() >= intake.limits().batch_events_max {
            self.open.swap_remove(at).hand_over(intake);
        }
    }

    /// A batch for a partition that we hold; a message of one that we do not is not ours to read.
    fn begin(&mut self, number: u32, lanes: &Lanes, intake: &mut Intake<'_>) -> Option<usize> {
        let partition = Partition::new(Arc::clone(&self.topic), number);
        let lane = lanes.get(&partition)?;
        self.open.push(Open { lane, batch: intake.batch(&partition), unreadable: Vec::new() });
        Some(self.open.len() - 1)
    }
}

impl Open {
    /// Copies a message; says how many bytes it took.
    fn copy(&mut self, message: &BorrowedMessage<'_>) -> usize {
        let before = self.batch.bytes();
        let appended_ms = message.timestamp().to_millis().and_then(|ms| u64::try_from(ms).ok());
        let record = Record {
            offset: u64::try_from(message.offset()).unwrap_or_default(),
            appended_ms: appended_ms.unwrap_or_else(clock::wall_ms),
            key: message.key(),
            payload: message.payload(),
        };
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

    /// The next offset lies behind the last event: offsets have holes.
    fn hand_over(mut self, intake: &mut Intake<'_>) {
        let next = self.batch.events().last().map_or(0, |event| event.offset + 1);
        self.batch.set_position(Position::at(next));
        self.condemn(intake.limits().event_bytes_max);
        intake.hand_over(&self.lane, self.batch);
    }

    /// What was read and cannot go on is a dead letter.
    fn condemn(&mut self, event_bytes_max: usize) {
        let size = |event: &Event| event.key.len() + event.payload.len() + event.headers.len();
        if self.unreadable.is_empty()
            && self.batch.events().iter().all(|event| size(event) <= event_bytes_max)
        {
            return;
        }
        let at_source = |class, words: String| Fate::Condemn(Cause::new("source", class, words));
        self.batch.sift(|batch, index| {
            let event = &batch.events()[index];
            match size(event) {
                _ if self.unreadable.contains(&event.offset) => {
                    at_source(CauseClass::Invalid, "the name of a header is not UTF-8".to_owned())
                }
                bytes if bytes > event_bytes_max => {
                    at_source(CauseClass::Oversize, format!("{bytes} bytes are more than {event_bytes_max}"))
                }
                _ => Fate::Keep,
            }
        });
    }
}

/// A header: its name, and its value if it has one.
type Named<'a> = (&'a str, Option<&'a [u8]>);

/// The headers of a record; none if some name is no text: the library's wrapper panics at that, and a record must not end
/// the pipeline.
fn headers(headers: &BorrowedHeaders) -> Option<Vec<Named<'_>>> {
    catch_unwind(AssertUnwindSafe(|| headers.iter().map(|header| (header.key, header.value)).collect())).ok()
}
