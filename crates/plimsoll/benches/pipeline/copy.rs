//! Measures Kafka to Kafka with records in the binary envelope: exactly once and at least once.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_kafka::topic::Topic;
use plimsoll_kafka::{Membership, Source, exactly_once, scenario, sink};
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::transform::Encode;
use plimsoll_pipeline::{Limits, Parts, Settings, TransformFactory};
use serde_json::json;

use crate::Failure;
use crate::consume::payload;
use crate::plan::Plan;
use crate::row::{Bound, Goal, Of, Published, Row, Turn};
use crate::running::{self, parts, settings};
use crate::testbed::{Log, PARTITIONS, Testbed};

const FROM: &str = "copy-from";
const TO: &str = "copy-to";
const PAYLOAD_BYTES: usize = 512;
const BATCH: usize = 1000;
/// Events in flight: enough for a transaction that is written and one that is collected.
const EVENTS_MAX: usize = 50_000;
/// The goal of both rows. Their first subject copies with the guarantee at least once.
const WITHIN_TENTH: Goal = Goal {
    subject: 1,
    peer: 0,
    words: "exactly once within 10 % of at least once",
    of: Of::Rate,
    bound: Bound::Least(0.9),
};
/// The number of records of a transaction: the default, and one that keeps the cost of transactions small.
const TRANSACTIONS: [u32; 2] = [2000, 20_000];

/// A published figure for the two guarantees.
const PUBLISHED: [(f64, &str); 2] = [
    (
        525_000.0,
        "StreamKernel, synthetic → Kafka at least once with acks=1, published 2026-03-22 of an i9-8950HK (6 cores, 32 GB)",
    ),
    (507_000.0, "StreamKernel, exactly once, published 2026-03-22 of an i9-8950HK (6 cores, 32 GB)"),
];

/// The shared state of the subjects.
struct Shared {
    log: Rc<Log>,
    records: u64,
    turns: Cell<u32>,
    room: Room,
}

/// The transactions of a copy.
#[derive(Clone, Copy)]
enum Transactions {
    /// No transactions: at least once.
    None,
    /// Default transactions.
    Default,
    /// Transactions of this many records.
    Of(u32),
}

/// The limits of events in flight, and the number of workers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// The default limits.
    Default,
    /// Limits for large transactions.
    Large,
}

/// Both guarantees with default settings.
pub(crate) fn default_row(testbed: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    let shared = Rc::new(Shared::fill(testbed, plan, Room::Default)?);
    let Limits { batch_events_max, events_max, .. } = Limits::default();
    let setup = format!(
        "{} records of {PAYLOAD_BYTES} bytes from {PARTITIONS} partitions to {PARTITIONS}, each in the binary envelope, all settings by \
         default: batches of {batch_events_max}, {events_max} events in flight at most, exactly once {}",
        shared.records,
        exactly_once::EVENTS_IN_FLIGHT
    );
    let goal = Goal { subject: 1, ..WITHIN_TENTH };
    let (plain, once) = (Rc::clone(&shared), shared);
    let row = Row::new("Kafka → Kafka, settings by default", setup)
        .goal(goal)
        .subject("at least once", move || plain.turn(Transactions::None))
        .subject("exactly once", move || once.turn(Transactions::Default));
    Ok(Some(compared(row, [0, 1])))
}

fn compared(row: Row, subjects: [usize; 2]) -> Row {
    let published = subjects.into_iter().zip(PUBLISHED);
    published.fold(row, |row, (subject, (per_s, of))| row.published(Published { subject, per_s, of }))
}

pub(crate) fn row(testbed: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    let shared = Rc::new(Shared::fill(testbed, plan, Room::Large)?);
    let records = shared.records;
    let setup = format!(
        "{records} records of {PAYLOAD_BYTES} bytes from {PARTITIONS} partitions to {PARTITIONS}, each in the binary envelope, one \
         worker thread, batches of {BATCH}, {EVENTS_MAX} events in flight at most"
    );
    let goal = Goal { subject: 2, ..WITHIN_TENTH };
    let plain = Rc::clone(&shared);
    let row = Row::new("Kafka → Kafka", setup)
        .goal(goal)
        .subject("at least once", move || plain.turn(Transactions::None));
    let add = |row: Row, records_min: u32| {
        let shared = Rc::clone(&shared);
        let name = format!("exactly once, {records_min} a transaction");
        row.subject(name, move || shared.turn(Transactions::Of(records_min)))
    };
    Ok(Some(compared(TRANSACTIONS.into_iter().fold(row, add), [0, 2])))
}

impl Shared {
    fn fill(testbed: &Testbed, plan: &Plan, room: Room) -> Result<Self, Failure> {
        let shared = Self { log: testbed.broker()?, records: plan.copied, turns: Cell::new(0), room };
        shared.log.fill(FROM, shared.records, &mut |number, out| payload(number, out, PAYLOAD_BYTES))?;
        Ok(shared)
    }

    /// Copies the topic to an empty one, in its own group.
    fn turn(&self, transactions: Transactions) -> Result<Turn, Failure> {
        Ok(self.copy(transactions)?.of_what_was_there())
    }

    fn copy(&self, transactions: Transactions) -> Result<Turn, Failure> {
        self.turns.set(self.turns.get() + 1);
        // A group may have an offset in a topic of this name from another row.
        let number =
            format!("{}-{}", if self.room == Room::Large { "large" } else { "default" }, self.turns.get());
        // Frees the space of the previous turn's records at once.
        self.log.reset(&Topic::new(TO, PARTITIONS).with("file.delete.delay.ms", "1000"))?;
        let source = Source::build(&running::topic(&self.log, FROM, &format!("copy-{number}"))?)?;
        let typed: scenario::Sink =
            serde_json::from_value(json!({"brokers": self.log.brokers(), "topic": TO, "placing": "same"}))?;
        let encode: Vec<Box<dyn TransformFactory>> = vec![Box::new(Encode)];
        let mut once = json!({"transactional_id": format!("copy-{number}")});
        match transactions {
            Transactions::None => {
                let parts = parts(source, encode, sink::Topic::build(&typed)?);
                return running::run(parts, self.settings(Guarantee::AtLeastOnce), self.records);
            }
            Transactions::Default => {}
            Transactions::Of(records_min) => once["records_min"] = json!(records_min),
        }
        let once: scenario::ExactlyOnce = serde_json::from_value(once)?;
        let membership = Arc::new(Membership::default());
        let to = exactly_once::Topic::build(&typed, &once, Arc::clone(&membership))?;
        let source = source.with_membership(Arc::clone(&membership));
        let parts = Parts { positions: Some(membership), ..parts(source, encode, to) };
        running::run(parts, self.settings(Guarantee::EffectivelyOnce), self.records)
    }

    fn settings(&self, guarantee: Guarantee) -> Settings {
        match self.room {
            Room::Default => default(guarantee),
            Room::Large => roomy(guarantee),
        }
    }
}

/// The default settings.
fn default(guarantee: Guarantee) -> Settings {
    let once = guarantee == Guarantee::EffectivelyOnce;
    let plain = Limits::default();
    let events_max = if once { exactly_once::EVENTS_IN_FLIGHT } else { plain.events_max };
    Settings { guarantee, limits: Limits { events_max, ..plain }, ..Settings::default() }
}

fn roomy(guarantee: Guarantee) -> Settings {
    let limits = Limits { batch_events_max: BATCH, events_max: EVENTS_MAX, ..Limits::default() };
    Settings { limits, ..settings(guarantee, BATCH) }
}
