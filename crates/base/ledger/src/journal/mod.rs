//! Stores the ledger on disk: reserves numbers before they are sent, and appends outcomes page by page.
//!
//! A directory contains `ledger.txt` (the run and its allocation) and one append-only journal per worker. Workers never wait:
//! the [`Journals`] writes on another thread. After a crash [`recover`] reads the journals: a reserved document without another
//! recorded state is unknown. Intents are recorded like reservations, changes like outcomes. At the end of a run [`save`]
//! writes the ledger to one file of two bits per document (25 MB for 100 million) and the changes to another. It removes the
//! journals, which grow by each changed page in each flush.

mod changed;
mod error;
mod files;
mod grouped;
mod header;
mod journals;
mod list;
mod record;
mod recovery;
mod replay;
mod saved;

pub use error::Error;
pub use files::{FileLog, Log};
pub use journals::Journals;
pub use recovery::{Recovered, Source, recover};
pub use saved::{load, save};
