//! Measures Kafka to MongoDB, effectively once, and Kafka Connect with MongoDB's sink connector.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson};
use plimsoll_kafka::Source;
use plimsoll_measure::clock;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{Control, Pipeline};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::document::identity::Identity;
use plimsoll_stores::scenario;

use crate::Failure;
use crate::connector::{self, Connector, Writes};
use crate::marks::{Marks, Name};
use crate::plan::Plan;
use crate::row::{Bound, Goal, Of, Row, Turn};
use crate::running::{self, p999, parts, settings};
use crate::testbed::{DB, Log, PARTITIONS, Store, Testbed};
use crate::watch::{Sample, watch};

const TOPIC: &str = "connect";
const COLLECTION: &str = "connect";
const DOCUMENT_BYTES: usize = 470;
const BATCH: usize = 1000;
/// The number of the topic in the documents' ids.
const TOPIC_NUMBER: u32 = 7;
/// The interval at which the collection is counted: its cost for the server is the same for all.
const EVERY: Duration = Duration::from_millis(20);

/// The shared state of the subjects.
struct Shared {
    cache: PathBuf,
    log: Rc<Log>,
    store: Rc<RefCell<Store>>,
    records: u64,
    turns: Cell<u32>,
}

pub(crate) fn row(testbed: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    if !connector::is_installed(testbed) {
        return Ok(None);
    }
    let shared = Rc::new(Shared {
        cache: testbed.cache.root().to_owned(),
        log: testbed.broker()?,
        store: testbed.server()?,
        records: plan.connected,
        turns: Cell::new(0),
    });
    let records = shared.records;
    shared.log.fill(TOPIC, records, &mut json)?;
    let setup = format!(
        "{records} JSON documents of {DOCUMENT_BYTES} bytes from {PARTITIONS} partitions, w: majority, \
         j: true; measured from outside, without the first half, so that the JVM is warm, as the two counted halves show; {}",
        connector::SETTINGS
    );
    let goal = Goal {
        subject: 2,
        peer: 0,
        words: "3 times the replacing connector, which is effectively once like ours",
        of: Of::Rate,
        bound: Bound::Least(3.0),
    };
    let faster = Goal { peer: 1, words: "3 times the inserting connector, which promises less", ..goal };
    let [replace, insert, ours] = std::array::from_fn(|_| Rc::clone(&shared));
    let row = Row::new("Kafka → MongoDB, effectively once", setup)
        .goal(goal)
        .goal(faster)
        .subject("Kafka Connect, replacing (effectively once)", move || replace.peer(Writes::Replace))
        .subject("Kafka Connect, inserting (duplicates fail)", move || insert.peer(Writes::Insert))
        .subject("pipeline (effectively once)", move || ours.ours());
    Ok(Some(row))
}

impl Shared {
    fn name(&self) -> String {
        self.turns.set(self.turns.get() + 1);
        format!("connect-{}", self.turns.get())
    }

    fn peer(&self, writes: Writes) -> Result<Turn, Failure> {
        self.store.borrow_mut().drop_collection(COLLECTION)?;
        let (from, name) = ((&*self.log, TOPIC), self.name());
        let store = self.store.borrow();
        let connector = Connector::start(&self.cache, from, (&store, COLLECTION), (&name, writes))?;
        drop(store);
        let name = |partition, offset| Bson::String(format!("{TOPIC}#{partition}#{offset}"));
        self.watch(Box::new(name), || connector.cpu_ns())
    }

    fn ours(&self) -> Result<Turn, Failure> {
        self.store.borrow_mut().drop_collection(COLLECTION)?;
        let source = Source::build(&running::topic(&self.log, TOPIC, &self.name())?)?;
        let collection = format!("{DB}.{COLLECTION}");
        let uri = self.store.borrow().uri();
        let topics = [(TOPIC.to_owned(), TOPIC_NUMBER)].into();
        let sink = scenario::Insert { form: Form::Json, topics, ..scenario::Insert::new(uri, collection) };
        let control = Arc::new(Control::default());
        let parts = parts(source, Vec::new(), sink.build()?);
        let settings = settings(Guarantee::EffectivelyOnce, BATCH);
        let pipeline = Pipeline::build(parts, settings, Arc::clone(&control))?;
        let meter = pipeline.meter();
        let thread = thread::spawn(move || pipeline.run());
        let turn = self.watch(our_name(TOPIC_NUMBER), || {
            if thread.is_finished() { Err("the pipeline ended".into()) } else { Ok(clock::process_cpu_ns()) }
        });
        control.drain();
        thread.join().map_err(|_| "the pipeline panicked")??;
        Ok(Turn { p999: p999(&meter), ..turn? }.of_what_was_there())
    }

    /// Polls the collection until every record has arrived, and counts it then.
    fn watch(&self, name: Name, mut cpu_ns: impl FnMut() -> Result<u64, Failure>) -> Result<Turn, Failure> {
        let mut store = self.store.borrow_mut();
        let mut marks = Marks::of(&self.log.extents(TOPIC)?, COLLECTION, name);
        let skipped = self.records / 2;
        let turn = watch(self.records, EVERY, || {
            let (cpu_ns, events) = (cpu_ns()?, marks.look(&mut store)?);
            Ok(Sample { has_begun: events > skipped, events, cpu_ns })
        })?;
        // A batch before the last one may arrive slightly later.
        store.wait_for_count(COLLECTION, self.records)?;
        let stored_bytes = Some(store.document_bytes(COLLECTION)?);
        Ok(Turn { stored_bytes, ..turn })
    }
}

/// Plimsoll's `_id` of the document of each record, for a topic with this number.
pub(crate) fn our_name(topic: u32) -> Name {
    Box::new(move |partition, offset| {
        let bytes = Identity { topic, partition, offset }.to_bytes().to_vec();
        Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes })
    })
}

/// An order, as shops send them: nested, with an array, always of the same length.
pub(crate) fn json(number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let (user, cents) = (number.wrapping_mul(7919) % 1_000_000, number.wrapping_mul(104_729) % 1_000_000);
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        r#"{{"order":{number:010},"user":{{"id":"user-{user:06}","country":"NO","segment":"returning"}},"lines":[{{"sku":"A-{sku:06}","quantity":{quantity},"price":{price}.95}},{{"sku":"B-{sku:06}","quantity":1,"price":12.50}}],"total":{total}.45,"currency":"EUR","paid":true,"shipped":null,"placed":"2026-11-21T03:00:00Z","note":""#,
        number = 1_000_000_000 + number,
        sku = cents,
        quantity = 1 + number % 9,
        price = 10 + cents % 90,
        total = 100_000 + cents % 900_000,
    );
    let end = start + DOCUMENT_BYTES - r#""}"#.len();
    crate::consume::payload(number, out, end.saturating_sub(out.len()));
    out.extend_from_slice(br#""}"#);
}
