//! Audits a destination against its source: for each partition, which offsets exist, how often, and whether unchanged.
//!
//! [`mod@reconcile`] folds over found documents and never connects. [`mod@scan`] reads collections into it.
//! [`mod@content_match`] identifies events by content. [`mod@report`] holds the result.

pub mod content_match;
pub mod reconcile;
pub mod report;
pub mod scan;

mod kept;
mod partition;

pub use content_match::{ContentHash, ContentIndex, ContentIndexBuilder};
pub use kept::Kept;
pub use partition::{Expected, Payload, TooLong};
pub use reconcile::{Found, Reconcile};
pub use report::{BrokerReport, Mismatch, PartitionReport, Report, Run};
pub use scan::{AuditError, Identified, Part, scan};
