//! The ledger on disk: numbers are reserved before they are sent, and outcomes follow page by page.
//!
//! A directory holds `ledger.txt` (what the run and its deal are), and one append-only journal for each
//! worker. A worker never waits: the [`Keeper`] writes on another thread. After a crash [`recover`] reads
//! the journals: whatever was reserved and not known to have another state is unknown. What a worker means to change is
//! told like a reservation, what it changed follows like an outcome. At the end of a run
//! [`save`] puts the whole ledger into one file of two bits a document (25 MB for 100 million), what was changed
//! afterwards into another, and the journals, which grow by each page that changed in each flush, go.

mod changed;
mod error;
mod files;
mod header;
mod keeper;
mod list;
mod record;
mod recovery;
mod replay;
mod saved;

pub use error::Error;
pub use files::{FileLog, Log};
pub use keeper::Keeper;
pub use recovery::{Recovered, Source, recover};
pub use saved::{load, save};
