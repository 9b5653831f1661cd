//! Inspects a deployment: its databases, collections, indexes, fields and forbidden fields.
//!
//! In reading order: the request ([`Wanted`], [`Pattern`]), the full inspection ([`inspect`]) and the cheap part of one
//! collection ([`brief`]); below, a file for each question. If the server refuses a question, its answer is absent and a
//! note gives the reason; only a lost connection is an error.

use plimsoll_measure::clock;
use plimsoll_measure::inspection::{Collection, FORMAT, Inspection};
use plimsoll_wire::{Connection, Error as WireError};

use crate::namespace::Namespace;

mod ask;
mod catalogue;
mod collection;
mod databases;
mod forbidden;
mod inventory;
mod json;
mod read;
mod samples;
mod times;
mod walk;

pub use forbidden::{Pattern, PatternError};

pub(crate) use collection::sizes;

use ask::Asker;

/// Collections that are looked at, at most.
pub const COLLECTIONS_MAX: usize = 200;
/// Samples of a collection at most.
pub const SAMPLES_MAX: u32 = 20;
/// Forbidden fields at most.
pub const FORBIDDEN_MAX: usize = 32;
/// Empty commands whose round trips are measured; the median counts.
const PINGS: usize = 5;

/// What to look at.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// All collections of these databases. When neither databases nor collections are named: of `plimsoll` where it
    /// exists, else of all databases but the server's own.
    pub databases: Vec<String>,
    /// These collections.
    pub collections: Vec<Namespace>,
    /// Documents of each to keep; more than [`SAMPLES_MAX`] count as that.
    pub samples: u32,
    /// Fields that must not be there; at most [`FORBIDDEN_MAX`] of them are looked for.
    pub forbidden: Vec<Pattern>,
}

/// A deployment that cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A database that was named is not there.
    #[error("there is no database {name}: name one that there is, or leave it out to see all")]
    UnknownDatabase {
        /// Its name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A collection that was named is not there.
    #[error(
        "there is no collection {namespace}: name one that there is, or name the database alone to see all"
    )]
    UnknownCollection {
        /// Its name.
        namespace: Namespace,
        /// Those of its database, with the database's name.
        known: Vec<String>,
    },
    /// The connection was lost, or a request cannot be sent.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Looks at a deployment. What the server says of itself is left for the caller. Scans of whole collections stop after
/// a few seconds each and a minute in all; what they would have told is then estimated or absent, with a note.
///
/// # Errors
/// [`Error`] when something that was named is not there, or the connection is lost.
pub async fn inspect(connection: &mut Connection, wanted: &Wanted) -> Result<Inspection, Error> {
    let taken_ms = clock::wall_ms();
    let mut asker = Asker::new(connection);
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

/// The cheap part of one collection: whether it is there, how it was made, how many documents its metadata counts, what
/// it takes, its indexes and its first document. Nothing is scanned.
///
/// # Errors
/// The connection is lost.
pub async fn brief(connection: &mut Connection, namespace: &Namespace) -> Result<Collection, Error> {
    let mut asker = Asker::new(connection);
    match catalogue::find(&mut asker, namespace).await? {
        None => Ok(Collection::missing(&namespace.to_string())),
        Some(entry) => collection::brief(&mut asker, namespace, &entry).await,
    }
}

/// The median round trip of an empty command, in nanoseconds.
async fn round_trip(asker: &mut Asker<'_>) -> Result<u64, Error> {
    let mut trips = [0; PINGS];
    for trip in &mut trips {
        let sent = clock::now();
        asker.ping().await?;
        *trip = clock::now().since(sent);
    }
    trips.sort_unstable();
    Ok(trips[PINGS / 2])
}
