//! Remembers what was promised (two bits a document) and says what an audit found.
//!
//! A document's `_id` is a [`receipt`]: it carries the run and the document's number. [`numbers`] says which
//! writer sends which number. Each writer keeps a [`worker`] ledger and the [`versions`] of what it replaces, and tells its
//! [`intents`] before it changes anything; the [`journal`] keeps all that on disk, and the [`audit`] holds what was found
//! against what was promised.
//!
//! ```
//! use plimsoll_ledger::{Audit, Content, Deal, Found, Ledger, Run, State, WorkerLedger};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let run = Run { time_s: 1_700_000_000, tag: [1, 2, 3] };
//! let deal = Deal::new(1000, 1, Some(2))?;
//! let (mut share, mut writer) = (deal.share(0), WorkerLedger::unjournaled());
//!
//! let local = share.taken();
//! let numbers = share.take(1000).ok_or("nothing to send")?;
//! writer.set(local..share.taken(), State::Unknown); // then send, and when the reply comes:
//! writer.set(local..share.taken(), State::Acknowledged);
//!
//! let mut ledger = Ledger::new(run, deal);
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
//! Goals: 100 million documents cost 25 MB to remember and the same again to audit; 20 million
//! sightings a second on one core, in the order in which a scan meets them, which is nearly that of the
//! numbers (in random order over 100 million it is the memory that decides, and about half of it is met).
//! The crate knows no socket and no clock.

pub mod receipt;

pub mod numbers;

mod pairs;

pub mod versions;

mod touched;

mod changes;

pub mod intents;

pub mod worker;

pub mod ledger;

pub mod journal;

pub mod audit;

pub use audit::{Audit, Content, Findings, Found, Neighbours};
pub use changes::{Changed, Changes};
pub use intents::{Intent, Intents};
pub use journal::{Keeper, Recovered, Source, load, recover, save};
pub use ledger::Ledger;
pub use numbers::{Deal, Place, Share};
pub use pairs::{Counts, DOCUMENTS_PER_PAGE, Page, State};
pub use receipt::{Receipt, Run};
pub use touched::Touched;
pub use versions::{VERSION_MAX, Version, Versions};
pub use worker::WorkerLedger;
