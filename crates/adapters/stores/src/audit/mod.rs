//! The destination against the source: what of each partition's offsets is there, once, and as it was.
//!
//! [`mod@reconcile`] folds over what is found and never connects; [`mod@scan`] reads collections into it; [`mod@likeness`] knows
//! events by what they say, where nothing else names them; [`mod@report`] is what comes out.

pub mod likeness;
pub mod reconcile;
pub mod report;
pub mod scan;

mod partition;

pub use likeness::{Known, Learner, Likeness};
pub use partition::{TooLong, checksum};
pub use reconcile::{Expected, Found, Payload, Reconcile};
pub use report::{Mismatch, PartitionReport, Report};
pub use scan::{AuditError, Identified, Part, scan};
