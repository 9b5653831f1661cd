//! Inspects a deployment: its databases, collections, indexes, fields and forbidden fields.
//!
//! In reading order: the request ([`Wanted`], [`Pattern`]), the full inspection ([`inspect`]) and the cheap part of one
//! collection ([`brief`]), documents for a caller's own fold ([`sample()`]); below, a file for each question. If the server refuses a question, its answer is absent and a note
//! gives the reason; only a lost connection is an error.

use plimsoll_measure::clock;
use plimsoll_measure::inspection::{Collection, FORMAT, Inspection};
use plimsoll_wire::{Connection, Error as WireError};

use crate::namespace::Namespace;

mod catalogue;
mod collection;
mod databases;
mod forbidden;
mod inventory;
mod json;
mod query;
mod sample;
mod samples;
mod times;
mod walk;

pub use forbidden::{Pattern, PatternError};
pub use sample::{Sampled, sample};

pub(crate) use collection::sizes;

use query::Inspector;

/// The largest number of inspected collections.
pub const COLLECTIONS_MAX: usize = 200;
/// The largest number of samples of a collection.
pub const SAMPLES_MAX: u32 = 20;
/// The largest number of forbidden fields.
pub const FORBIDDEN_MAX: usize = 32;
/// The number of measured round trips; the median counts.
const PINGS: usize = 5;

/// A request for an inspection.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// All collections of these databases. Without databases and collections: of `plimsoll` if it exists, else of all databases
    /// except the system's.
    pub databases: Vec<String>,
    /// These collections.
    pub collections: Vec<Namespace>,
    /// Samples of each collection; at most [`SAMPLES_MAX`].
    pub samples: u32,
    /// Forbidden fields; at most [`FORBIDDEN_MAX`] of them are searched.
    pub forbidden: Vec<Pattern>,
}

/// The reason why an inspection failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A requested database does not exist.
    #[error("database {name} does not exist: name an existing one, or leave it out to see all")]
    UnknownDatabase {
        /// Its name.
        name: String,
        /// The existing databases.
        known: Vec<String>,
    },
    /// A requested collection does not exist.
    #[error(
        "collection {namespace} does not exist: name an existing one, or name the database alone to see all"
    )]
    UnknownCollection {
        /// Its name.
        namespace: Namespace,
        /// The existing collections of its database, with the database's name.
        known: Vec<String>,
    },
    /// The connection was lost, or a request cannot be encoded.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Inspects a deployment. The caller adds the facts about the server. A scan of a whole collection stops after a few seconds, and
/// all scans together after a minute; the answer is then estimated or absent, with a note.
///
/// # Errors
/// [`Error`] if a requested database or collection does not exist, or the connection is lost.
pub async fn inspect(connection: &mut Connection, wanted: &Wanted) -> Result<Inspection, Error> {
    let taken_ms = clock::wall_ms();
    let mut asker = Inspector::new(connection);
    let round_trip_ns = round_trip(&mut asker).await?;
    let names = databases::names(&mut asker).await?;
    let (chosen, mut notes) = catalogue::choose(&mut asker, wanted, &names).await?;
    let (databases, cut) = databases::sizes(&mut asker, &names).await?;
    notes.extend(cut);
    let mut collections = Vec::new();
    for (namespace, entry) in &chosen {
        collections.push(collection::look(&mut asker, namespace, entry, wanted).await?);
    }
    let taken = clock::utc(taken_ms);
    let (server, topics) = Default::default();
    Ok(Inspection {
        format: FORMAT,
        taken,
        taken_ms,
        server,
        round_trip_ns,
        databases,
        collections,
        topics,
        notes,
    })
}

/// The cheap part of one collection: its existence, options, document count by metadata, sizes, indexes and first document.
/// Scans nothing.
///
/// # Errors
/// If the connection is lost.
pub async fn brief(connection: &mut Connection, namespace: &Namespace) -> Result<Collection, Error> {
    let mut asker = Inspector::new(connection);
    match catalogue::find(&mut asker, namespace).await? {
        None => Ok(Collection::missing(&namespace.to_string())),
        Some(entry) => collection::brief(&mut asker, namespace, &entry).await,
    }
}

/// The median round trip of an empty command, in nanoseconds.
async fn round_trip(asker: &mut Inspector<'_>) -> Result<u64, Error> {
    let mut trips = [0; PINGS];
    for trip in &mut trips {
        let sent = clock::now();
        asker.ping().await?;
        *trip = clock::now().since(sent);
    }
    trips.sort_unstable();
    Ok(trips[PINGS / 2])
}
