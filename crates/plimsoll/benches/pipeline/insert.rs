//! Measures a generator into MongoDB, and the raw insert loop with the same documents, batches and
//! connections.
//!
//! The raw loop has prepared documents, and the pipeline makes its own: the cost of the generator counts as
//! the engine's.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, doc};
use plimsoll_measure::clock;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::sink::Noop;
use plimsoll_pipeline::source::Stop;
use plimsoll_pipeline::{
    Batch, Partition, Record, Sink, SinkFactory, Transform, TransformError, TransformFactory, Verdict,
};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::scenario;

use crate::Failure;
use crate::generator::generator;
use crate::plan::Plan;
use crate::raw::Raw;
use crate::row::{Bound, Goal, Of, Published, Row, Turn};
use crate::running::{parts, run, settings};
use crate::testbed::{DB, Store, Testbed};

const COLLECTION: &str = "insert";
const PAYLOAD_BYTES: usize = 512;
const CONNECTIONS: usize = 4;
const MADE_UP_TO_MONGODB: &str = "StreamKernel, synthetic → MongoDB insert of documents without their payload, published 2026-03-22 of an \
                                  i9-8950HK (6 cores, 32 GB)";
const BATCH: usize = 500;
/// The number of distinct documents of the raw loop: the first documents of the pipeline, as many as it has
/// in flight. So both read from the same CPU caches.
const DOCUMENTS: u64 = 20 * BATCH as u64;

pub(crate) fn row(testbed: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    let (store, events) = (testbed.server()?, plan.inserted);
    let payloads = made()?;
    let documents =
        payloads.iter().map(|payload| document(payload.clone())).collect::<Result<Vec<_>, _>>()?;
    let setup = format!(
        "{events} documents of {} bytes, {BATCH} a command, {CONNECTIONS} connections, w: majority, j: true, one thread each",
        documents[0].len() + 26
    );
    let mut raw = Raw::connect(&store.borrow().address(), COLLECTION, CONNECTIONS, documents, BATCH)?;
    let mut alone = Alone::build(&store.borrow(), &payloads)?;
    let goal = Goal {
        subject: 2,
        peer: 0,
        words: "at most 5 % below the raw loop",
        of: Of::Rate,
        bound: Bound::Least(0.95),
    };
    let cpu = Goal {
        words: "at most 5 % more CPU than the raw loop",
        of: Of::Cpu,
        bound: Bound::Most(1.05),
        ..goal
    };
    let [first, second, third] = std::array::from_fn(|_| Rc::clone(&store));
    let row = Row::new("Generator → MongoDB", setup)
        .goal(goal)
        .goal(cpu)
        .subject("raw insert loop", move || {
            first.borrow_mut().drop_collection(COLLECTION)?;
            raw.insert(events)
        })
        .subject("the sink alone", move || {
            second.borrow_mut().drop_collection(COLLECTION)?;
            alone.insert(events)
        })
        .subject("pipeline", move || {
            third.borrow_mut().drop_collection(COLLECTION)?;
            let sink = typed(&third.borrow()).build()?;
            let source = generator(PAYLOAD_BYTES, Stop::Events(events));
            run(parts(source, Vec::new(), sink), settings(Guarantee::AtMostOnce, BATCH), events)
        })
        .published(Published { subject: 2, per_s: 163_007.0, of: MADE_UP_TO_MONGODB });
    Ok(Some(row))
}

fn typed(store: &Store) -> scenario::Insert {
    let collection = format!("{DB}.{COLLECTION}");
    scenario::Insert {
        form: Form::Full,
        connections: CONNECTIONS,
        ..scenario::Insert::new(store.uri(), collection)
    }
}

/// The payloads that the pipeline's generator makes first: a server's storage depends on the contents.
fn made() -> Result<Vec<Vec<u8>>, Failure> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let source = generator(PAYLOAD_BYTES, Stop::Events(DOCUMENTS));
    let parts = parts(source, vec![Box::new(Copies(Arc::clone(&seen)))], Noop);
    run(parts, settings(Guarantee::AtMostOnce, BATCH), DOCUMENTS)?;
    let payloads = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    if payloads.len() as u64 == DOCUMENTS {
        Ok(payloads)
    } else {
        Err(format!("the generator made {} payloads, not {DOCUMENTS}", payloads.len()).into())
    }
}

/// Keeps a copy of every payload.
#[derive(Clone)]
struct Copies(Arc<Mutex<Vec<Vec<u8>>>>);

impl TransformFactory for Copies {
    fn build(&self, _: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(self.clone()))
    }

    fn name(&self) -> &str {
        "copies"
    }
}

impl Transform for Copies {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(batch.events().iter().filter_map(|event| batch.payload(event)).map(<[u8]>::to_vec));
        Ok(())
    }
}

/// A document that the sink makes of an event, without its `_id`.
fn document(bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes };
    let ts = DateTime::from_millis(i64::try_from(clock::wall_ms())?);
    Ok(doc! {"key": Bson::Null, "headers": [], "ts": ts, "payload": payload}.to_vec()?)
}

/// Runs the sink without the engine, in a loop on one thread.
struct Alone {
    sink: Box<dyn Sink>,
    spare: Vec<Batch>,
    next: u64,
}

impl Alone {
    fn build(store: &Store, payloads: &[Vec<u8>]) -> Result<Self, Failure> {
        let sink = typed(store).build()?.build(0)?;
        let batch = |payloads: &[Vec<u8>]| {
            let mut batch = Batch::new(Partition::new("alone", 0));
            for payload in payloads {
                let appended_ms = clock::wall_ms();
                batch.push(Record { appended_ms, payload: Some(payload), ..Record::default() });
            }
            batch
        };
        Ok(Self { sink, spare: payloads.chunks_exact(BATCH).map(batch).collect(), next: 0 })
    }

    /// Inserts whole batches with at least `events` documents in all.
    fn insert(&mut self, events: u64) -> Result<Turn, Failure> {
        let (begun, cpu_ns, start) = (clock::now(), clock::process_cpu_ns(), self.next);
        let (end, mut in_hand) = (start + events, 0);
        while self.next < end || in_hand > 0 {
            while in_hand < CONNECTIONS && self.next < end {
                // Takes the oldest batch, which is not in the nearest CPU cache. The same holds for a
                // pipeline.
                let mut batch = self.spare.remove(0);
                for event in batch.events_mut() {
                    event.offset = self.next;
                    self.next += 1;
                }
                self.sink.submit(batch);
                in_hand += 1;
            }
            if let Some(settled) = self.sink.settle(Duration::from_millis(20)) {
                in_hand -= 1;
                if settled.verdict != Verdict::WRITTEN {
                    return Err(format!("a batch was not written: {:?}", settled.verdict).into());
                }
                self.spare.push(settled.batch);
            }
        }
        let (wall_ns, cpu_ns) = (clock::now().since(begun), clock::process_cpu_ns() - cpu_ns);
        Ok(Turn { events: self.next - start, wall_ns, cpu_ns, ..Turn::default() })
    }
}
