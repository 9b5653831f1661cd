//! Defines the port for bodies that templates cannot express: workloads generate them.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Generates the bodies of an operation's requests. Each depends only on its number, not on the worker or the time.
pub trait Workload: fmt::Debug + Send + Sync {
    /// Appends the JSON body of request `number`.
    fn body(&self, number: u64, out: &mut Vec<u8>);

    /// Reads back the data that the requests stored, if the workload supports that.
    fn read_back(&self) -> Option<&dyn ReadBack> {
        None
    }
}

/// Reads back the parts that requests stored, such as the readings of a batch. Each part has a GET that
/// returns it.
pub trait ReadBack: fmt::Debug + Send + Sync {
    /// The number of parts of request `number`, at most [`PARTS_MAX`].
    fn parts(&self, number: u64) -> u64;

    /// Appends the path and the query, from the service's URL on, percent-encoded.
    fn path(&self, part: Part, out: &mut Vec<u8>);

    /// Judges the body of an answer with an expected status.
    fn judge(&self, part: Part, answer: &[u8]) -> Shown;
}

/// The most parts of a request that are read back.
pub const PARTS_MAX: u64 = 1 << 10;

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the request.
    pub number: u64,
    /// The index within the request.
    pub index: u64,
}

impl Part {
    /// The number of its GET. Request numbers are so small that this product never overflows.
    pub(crate) const fn document(self) -> u64 {
        self.number * PARTS_MAX + self.index
    }

    /// The part whose GET has this number.
    pub(crate) const fn of_document(document: u64) -> Self {
        Self { number: document / PARTS_MAX, index: document % PARTS_MAX }
    }
}

/// The part that an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The part as it was sent.
    Intact,
    /// The part with other content.
    Altered,
    /// No part.
    Absent,
    /// The answer does not say whether the part exists.
    Unclear,
}

/// The inputs of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadContext {
    /// The seed, different for each operation.
    pub seed: u64,
    /// The run's start, in milliseconds since 1970.
    pub start_ms: i64,
}

/// Builds the workload of a scenario from its settings, or explains why they are invalid.
pub type Workloads<'a> =
    &'a dyn Fn(&Map<String, Value>, WorkloadContext) -> Result<Arc<dyn Workload>, String>;

/// Refuses every workload.
pub(super) fn none(typed: &Map<String, Value>, _: WorkloadContext) -> Result<Arc<dyn Workload>, String> {
    let names: Vec<_> = typed.keys().map(String::as_str).collect();
    Err(format!("there is no workload `{}` here", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_read_leads_back_to_its_part() {
        for part in [(0, 0), (7, 3), (1 << 40, PARTS_MAX - 1)].map(|(number, index)| Part { number, index }) {
            assert_eq!(Part::of_document(part.document()), part);
        }
    }
}
