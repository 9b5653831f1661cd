//! Records the server's promises in two bits per document, and audits the stored documents.
//!
//! A document's `_id` is a [`receipt`]: it carries the run and the document's number. [`numbers`] assigns the numbers to
//! writers. Each writer has a [`worker`] ledger and the [`versions`] of its replaced documents, and records its [`intents`]
//! before it changes anything. The [`journal`] stores all of that on disk, and the [`audit`] compares the stored documents with
//! the promises.
//!
//! ```
//! use plimsoll_ledger::{Allocation, Audit, Content, Found, Ledger, Run, State, WorkerLedger};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let run = Run { time_s: 1_700_000_000, tag: [1, 2, 3] };
//! let allocation = Allocation::new(1000, 1, Some(2))?;
//! let (mut share, mut writer) = (allocation.share(0), WorkerLedger::unjournaled());
//!
//! let local = share.taken();
//! let numbers = share.take(1000).ok_or("nothing to send")?;
//! writer.set(local..share.taken(), State::Unknown); // then send, and when the reply comes:
//! writer.set(local..share.taken(), State::Acknowledged);
//!
//! let mut ledger = Ledger::new(run, allocation);
//! ledger.adopt(0, writer);
//! let mut audit = Audit::new(&ledger);
//! let stamp = Some(run.receipt(numbers.start).stamp());
//! audit.see(Found::Receipt { number: numbers.start, content: Content::Follows(0), stamp });
//! let findings = audit.finish();
//! assert_eq!((findings.acknowledged, findings.found, findings.lost), (2, 1, 1));
//! # Ok(())
//! # }
//! ```
//!
//! Goals: 100 million documents take 25 MB to record and as much to audit. One core audits 20 million documents a second in the
//! order of a scan, which nearly follows the numbers. Random order over 100 million is bound by memory and reaches about half
//! of that. This crate must not know sockets or clocks.

pub mod receipt;

pub mod numbers;

mod pairs;

pub mod versions;

mod kinds;

mod touched;

mod transactions;

mod changes;

pub mod intents;

pub mod worker;

pub mod ledger;

pub mod journal;

pub mod audit;

pub use audit::{Audit, Content, Findings, Found, Half, IndexScan, OtherWriters, Shown};
pub use changes::{Changed, Changes};
pub use intents::{Intent, Intents};
pub use journal::{Journals, Recovered, Source, load, recover, save};
pub use kinds::{KINDS_MAX, Kinds};
pub use ledger::Ledger;
pub use numbers::{Allocation, Share, Slot};
pub use pairs::{Counts, DOCUMENTS_PER_PAGE, Page, State};
pub use receipt::{Receipt, Run};
pub use touched::Touched;
pub use transactions::{Span, Transactions};
pub use versions::{VERSION_MAX, Version, Versions};
pub use worker::WorkerLedger;
