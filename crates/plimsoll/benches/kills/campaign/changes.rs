//! Feeds a collection whose changes are a source: numbered inserts, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_measure::stream::checksum;
use plimsoll_pipeline::{Partition, Position};
use plimsoll_stores::audit::{Expected, Identified, Part, Report, scan};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::scenario::Positions;
use plimsoll_stores::source::change_stream::number;
use plimsoll_stores::topics::Topics;
use plimsoll_wire::{ConnectOptions, Connection};

use super::profile::Profile;

/// The database of the watched collections.
const DATABASE: &str = "kills_source";
/// The documents of one command, and the interval between commands.
const BATCH: u64 = 50;
const EVERY: Duration = Duration::from_millis(50);
/// The time limit for a restart of the server, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;
/// The server's error code DuplicateKey: the document was inserted before the server was killed.
const DUPLICATE: i32 = 11000;
/// The server's error code NamespaceExists.
const EXISTS: i32 = 48;

/// Inserts documents until it is stopped.
pub struct Changes {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<u64>>,
}

impl Changes {
    /// Starts the inserts at the document `from`: documents with smaller numbers were inserted before.
    pub fn start(uri: &str, collection: &str, from: u64) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (over, desk) = (Arc::clone(&stop), Desk::of(uri)?);
        let collection = collection.to_owned();
        let thread = thread::Builder::new().name("changes".into());
        let thread = thread.spawn(move || fill(desk, &collection, from, &over))?;
        Ok(Self { stop, thread })
    }

    /// Returns an error if the thread has ended by itself.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.thread.is_finished(), "the source could not be filled any more");
        Ok(())
    }

    /// Stops inserting; returns the number of documents so far.
    pub fn stop(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread that fills the source panicked"))?
    }
}

/// Creates the watched collection.
pub fn make(uri: &str, collection: &str) -> anyhow::Result<()> {
    let mut desk = Desk::of(uri)?;
    match desk.ask(&rawdoc! {"create": collection}) {
        Err(plimsoll_wire::Error::Server(error)) if error.code == EXISTS => Ok(()),
        made => Ok(made.map(drop)?),
    }
}

/// Whether the pipeline's first position is stored. From then on, the pipeline must read every change.
pub fn is_watched(uri: &str, profile: &Profile) -> anyhow::Result<bool> {
    Ok(position(uri, profile)?.is_some())
}

fn position(uri: &str, profile: &Profile) -> anyhow::Result<Option<Position>> {
    let typed = serde_json::json!({"uri": uri, "collection": "kills.positions"});
    let positions: Positions = serde_json::from_value(typed)?;
    let positions = positions.build(profile.name)?;
    Ok(positions.look(&Partition::new(watched(profile), 0))?.position)
}

/// Compares the destination with this number of inserts.
pub fn audit(uri: &str, profile: &Profile, inserted: u64) -> anyhow::Result<Report> {
    let namespace = format!("kills.{}", profile.name).parse()?;
    let topic = watched(profile);
    let sum = || (0..inserted).map(|number| checksum(number, Some([document(number).as_bytes()])));
    let anew = profile.names_anew();
    let expected = Expected {
        number: Topics::of(&namespace, Default::default()).default_number(&topic),
        topic,
        partition: position(uri, profile)?.as_ref().map_or(0, number),
        offsets: 0..inserted,
        holes: Vec::new(),
        // A document with a new id does not hold its payload unchanged, so no checksum is expected.
        checksum: (!anew).then(|| sum().fold(0, u64::wrapping_add)),
    };
    let identified = if anew { Identified::ByField("from".to_owned()) } else { Identified::ById };
    Ok(scan(uri, vec![expected], &[Part { namespace, identified, form: Form::Bson }])?)
}

fn watched(profile: &Profile) -> String {
    format!("{DATABASE}.{}", profile.name)
}

fn document(number: u64) -> RawDocumentBuf {
    let number = number.cast_signed();
    rawdoc! {"_id": number, "text": format!("change {number}"), "square": number.wrapping_mul(number)}
}

fn fill(mut desk: Desk, collection: &str, from: u64, over: &AtomicBool) -> anyhow::Result<u64> {
    let mut next = from;
    while !over.load(Ordering::Relaxed) {
        insert(&mut desk, collection, next)?;
        next += BATCH;
        thread::sleep(EVERY);
    }
    Ok(next)
}

/// Inserts the documents of one command, with as many retries as necessary.
fn insert(desk: &mut Desk, collection: &str, first: u64) -> anyhow::Result<()> {
    let began = clock::now();
    let mut documents = RawArrayBuf::new();
    (first..first + BATCH).for_each(|number| documents.push(document(number)));
    // Ordered, so that the changes are in order; documents of an earlier attempt are skipped.
    let mut ordered = true;
    loop {
        let command = rawdoc! {
            "insert": collection, "documents": documents.clone(), "ordered": ordered,
            "writeConcern": {"w": "majority", "j": true},
        };
        match desk.ask(&command) {
            Ok(reply) if reply.get("writeConcernError")?.is_none() => return refused(&reply),
            Err(error) if clock::now().since(began) >= PATIENCE_NS => return Err(error.into()),
            Ok(_) | Err(_) => {}
        }
        ordered = false;
        thread::sleep(EVERY);
    }
}

fn refused(reply: &RawDocument) -> anyhow::Result<()> {
    let Ok(errors) = reply.get_array("writeErrors") else { return Ok(()) };
    for error in errors {
        let error = error?;
        let code = error.as_document().and_then(|error| error.get_i32("code").ok());
        if code != Some(DUPLICATE) {
            bail!("the source refuses a document: {error:?}");
        }
    }
    Ok(())
}

/// A connection that is reopened when it breaks.
struct Desk {
    runtime: tokio::runtime::Runtime,
    options: ConnectOptions,
    connection: Option<Connection>,
}

impl Desk {
    fn of(uri: &str) -> anyhow::Result<Self> {
        let address = uri.trim_start_matches("mongodb://").split('/').next().unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut options = ConnectOptions::new(address.parse()?);
        options.timeout = Some(Duration::from_secs(10));
        Ok(Self { runtime, options, connection: None })
    }

    fn ask(&mut self, command: &RawDocument) -> Result<RawDocumentBuf, plimsoll_wire::Error> {
        let Self { runtime, options, connection } = self;
        let said = runtime.block_on(async {
            let open = match connection.take().filter(|connection| !connection.is_broken()) {
                Some(open) => open,
                None => Connection::connect(options).await?,
            };
            connection.insert(open).command(DATABASE, command).await
        });
        if said.is_err() {
            *connection = None;
        }
        said
    }
}
