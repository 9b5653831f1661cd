//! From Kafka to Kafka in the envelope: exactly once beside at least once.

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
use crate::place::{Log, PARTITIONS, Place};
use crate::plan::Plan;
use crate::row::{Bound, Goal, Of, Row, Turn};
use crate::running::{self, parts, settings};

const FROM: &str = "copy-from";
const TO: &str = "copy-to";
const PAYLOAD_BYTES: usize = 512;
const BATCH: usize = 1000;
/// Events in flight: room for a transaction that is written and one that is gathered.
const EVENTS_MAX: usize = 50_000;
/// Records of a transaction by default, and as many as keep its cost small.
const TRANSACTIONS: [u32; 2] = [2000, 20_000];

/// What the subjects share.
struct Shared {
    log: Rc<Log>,
    records: u64,
    turns: Cell<u32>,
}

pub(crate) fn row(place: &Place, plan: &Plan) -> Result<Option<Row>, Failure> {
    let shared = Rc::new(Shared { log: place.broker()?, records: plan.copied, turns: Cell::new(0) });
    let records = shared.records;
    shared.log.fill(FROM, records, &mut |number, out| payload(number, out, PAYLOAD_BYTES))?;
    let setup = format!(
        "{records} records of {PAYLOAD_BYTES} bytes from {PARTITIONS} partitions to {PARTITIONS}, each in the binary envelope, one \
         worker thread, batches of {BATCH}, {EVENTS_MAX} events in flight at most"
    );
    let goal = Goal {
        subject: 2,
        words: "exactly once within 10 % of at least once",
        of: Of::Rate,
        bound: Bound::Least(0.9),
    };
    let plain = Rc::clone(&shared);
    let row = Row::new("Kafka → Kafka", setup).goal(goal).subject("at least once", move || plain.turn(None));
    let add = |row: Row, records_min: u32| {
        let shared = Rc::clone(&shared);
        let name = format!("exactly once, {records_min} a transaction");
        row.subject(name, move || shared.turn(Some(records_min)))
    };
    Ok(Some(TRANSACTIONS.into_iter().fold(row, add)))
}

impl Shared {
    /// Copies the topic to an empty one, as a group of its own.
    fn turn(&self, records_min: Option<u32>) -> Result<Turn, Failure> {
        self.turns.set(self.turns.get() + 1);
        let number = self.turns.get();
        self.log.reset(&Topic::new(TO, PARTITIONS))?;
        let source = Source::build(&running::topic(&self.log, FROM, &format!("copy-{number}"))?)?;
        let typed: scenario::Sink =
            serde_json::from_value(json!({"brokers": self.log.brokers(), "topic": TO, "placing": "same"}))?;
        let encode: Vec<Box<dyn TransformFactory>> = vec![Box::new(Encode)];
        let Some(records_min) = records_min else {
            let parts = parts(source, encode, sink::Topic::build(&typed)?);
            return running::run(parts, roomy(Guarantee::AtLeastOnce), self.records);
        };
        let once = json!({"transactional_id": format!("copy-{number}"), "records_min": records_min});
        let once: scenario::ExactlyOnce = serde_json::from_value(once)?;
        let membership = Arc::new(Membership::default());
        let to = exactly_once::Topic::build(&typed, &once, Arc::clone(&membership))?;
        let source = source.with_membership(Arc::clone(&membership));
        let parts = Parts { positions: Some(membership), ..parts(source, encode, to) };
        running::run(parts, roomy(Guarantee::EffectivelyOnce), self.records)
    }
}

fn roomy(guarantee: Guarantee) -> Settings {
    let limits = Limits { batch_events_max: BATCH, events_max: EVENTS_MAX, ..Limits::default() };
    Settings { limits, ..settings(guarantee, BATCH) }
}
