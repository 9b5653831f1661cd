//! Finds consistency anomalies in a history of transactions that append to lists and read them.
//!
//! Clients record a [`history`]: each transaction's steps, its interval and its outcome. All elements of a list differ, so one
//! read of a list shows in which order its elements were appended. [`check`] infers from the reads which transaction came before
//! which, and reports every contradiction as an [`Anomaly`] with an explanation. A [`Claim`] tells which anomalies a system
//! promises to prevent.
//!
//! ```
//! use plimsoll_consistency::{Claim, Outcome, Step, Transaction, check};
//!
//! # fn main() -> Result<(), plimsoll_consistency::InvalidHistory> {
//! let transaction = |process, invoked_ns, completed_ns, step| Transaction {
//!     process, invoked_ns, completed_ns, outcome: Outcome::Committed, steps: vec![step],
//! };
//! let history = [
//!     transaction(0, 0, 10, Step::Append { list: 7, element: 1 }),
//!     transaction(1, 20, 30, Step::Read { list: 7, elements: vec![] }),
//!     transaction(1, 40, 50, Step::Read { list: 7, elements: vec![1] }),
//! ];
//! let report = check(&history)?;
//! let first = report.violations(Claim::STRICT_SERIALIZABLE).next().map(|anomaly| anomaly.to_string());
//! assert_eq!(
//!     first.as_deref(),
//!     Some("stale read: T1 read [] of list 7 after T0 had appended 1 to it and was acknowledged")
//! );
//! # Ok(())
//! # }
//! ```
//!
//! The method is that of Elle (Kingsbury and Alvaro, VLDB 2020) for lists. The search for a linear order of
//! one list follows Wing, Gong and Lowe. A check takes time nearly linear in the number of elements that were
//! read. [`simulation`] makes histories with known anomalies. This crate must not know sockets, clocks or MongoDB.

pub mod history;

pub mod claim;

pub mod report;

mod limits;

mod check;

mod lists;

mod direct;

mod graph;

mod order;

mod components;

mod cycles;

mod linear;

pub mod simulation;

pub use check::{check, check_within};
pub use claim::{Claim, Isolation, Order};
pub use history::{Element, InvalidHistory, ListId, Outcome, Step, Transaction};
pub use limits::Limits;
pub use report::{Anomaly, Kind, Report};
