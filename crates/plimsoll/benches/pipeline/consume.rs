//! Measures reading from Kafka without a real sink, and the bare client library.

use std::rc::Rc;

use plimsoll_kafka::Source;
use plimsoll_kafka::bench::{self, Fields};
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::sink::Noop;

use crate::Failure;
use crate::plan::Plan;
use crate::row::{Bound, Goal, Of, Published, Row, Turn};
use crate::running::{self, parts, settings};
use crate::testbed::{LIMIT, Log, PARTITIONS, Testbed};

const TOPIC: &str = "consume";
const PAYLOAD_BYTES: usize = 200;
const KAFKA_TO_NOWHERE: &str = "StreamKernel, Kafka → nowhere, 64 bytes in 12 partitions, published 2026-03-22 of an i9-8950HK (6 cores, 32 GB)";

pub(crate) fn row(testbed: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    let (log, records) = (testbed.broker()?, plan.consumed);
    log.fill(TOPIC, records, &mut |number, out| payload(number, out, PAYLOAD_BYTES))?;
    let setup = format!(
        "{records} records of {PAYLOAD_BYTES} bytes and keys of 8 in {PARTITIONS} partitions, the same fetch settings; ours at least \
         once, one worker thread"
    );
    let goal =
        Goal { subject: 2, peer: 0, words: "0.9 of the bare client", of: Of::Rate, bound: Bound::Least(0.9) };
    let ([bare, looking], mut turns) = (std::array::from_fn(|_| Rc::clone(&log)), 0);
    let row = Row::new("Kafka → nowhere", setup)
        .goal(goal)
        .subject("librdkafka, polled in a loop", move || bare_turn(&bare, Fields::Length, records))
        .subject("the same, looking at each record", move || bare_turn(&looking, Fields::All, records))
        .subject("pipeline", move || {
            turns += 1;
            let source = Source::build(&running::topic(&log, TOPIC, &format!("consume-{turns}"))?)?;
            let parts = parts(source, Vec::new(), Noop);
            let turn = running::run(parts, settings(Guarantee::AtLeastOnce, 1000), records)?;
            Ok(turn.of_what_was_there())
        })
        .published(Published { subject: 2, per_s: 955_000.0, of: KAFKA_TO_NOWHERE });
    Ok(Some(row))
}

fn bare_turn(log: &Log, fields: Fields, records: u64) -> Result<Turn, Failure> {
    let count = bench::consume(&log.cluster(), TOPIC, fields, records, LIMIT)?;
    if count.records < records {
        return Err(format!("only {} of {records} records arrived", count.records).into());
    }
    let (events, wall_ns, cpu_ns) = (count.records, count.elapsed_ns, count.cpu_ns);
    Ok(Turn { events, wall_ns, cpu_ns, ..Turn::default() })
}

/// Bytes that differ from record to record and compress as text does.
pub(crate) fn payload(number: u64, out: &mut Vec<u8>, bytes: usize) {
    let end = out.len() + bytes;
    let mut state = number;
    while out.len() < end {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(format!("{:016x}", state).as_bytes());
    }
    out.truncate(end);
}
