//! Lists the documents that a worker sent, with their outcomes.

use std::sync::Arc;

use plimsoll_ledger::{Counts, State, WorkerLedger};

use crate::document_numbers::Layout;
use crate::setup::{PARTS_MAX, Part, Workload};

/// The documents that a worker sent with one operation, and their outcomes. The documents of a workload are the parts of its requests.
#[derive(Clone, Debug)]
pub struct SentDocuments {
    operation: usize,
    layout: Layout,
    ledger: WorkerLedger,
    /// The workload, if it made the requests and reads their parts back.
    reads: Option<Arc<dyn Workload>>,
}

impl SentDocuments {
    pub(crate) const fn new(
        operation: usize,
        layout: Layout,
        ledger: WorkerLedger,
        reads: Option<Arc<dyn Workload>>,
    ) -> Self {
        Self { operation, layout, ledger, reads }
    }

    /// Documents by state.
    pub fn counts(&self) -> Counts {
        if self.reads.is_none() {
            return self.ledger.counts();
        }
        let mut counts = Counts::default();
        for local in 0..self.layout.taken {
            let parts = self.documents(self.layout.number(local)).count() as u64;
            match self.ledger.state(local) {
                State::Acknowledged => counts.acknowledged += parts,
                State::Rejected => counts.rejected += parts,
                State::Unknown => counts.unknown += parts,
                State::NotSent => {}
            }
        }
        counts
    }

    /// The documents that exist or may exist.
    pub(crate) fn expected(self) -> impl Iterator<Item = Document> {
        let taken = self.layout.taken;
        let expected = move |local| {
            let acknowledged = match self.ledger.state(local) {
                State::Acknowledged => true,
                State::Unknown => false,
                State::NotSent | State::Rejected => return Vec::new(),
            };
            let document = |number| Document { operation: self.operation, number, acknowledged };
            self.documents(self.layout.number(local)).map(document).collect()
        };
        (0..taken).flat_map(expected)
    }

    /// The numbers of the documents that belong to the request with this number, or the number of a single
    /// document.
    fn documents(&self, number: u64) -> impl Iterator<Item = u64> {
        let parts =
            self.reads.as_ref().and_then(|it| it.read_back()).map(|it| it.parts(number).min(PARTS_MAX));
        let document = move |index| parts.map_or(number, |_| Part { number, index }.document());
        (0..parts.unwrap_or(1)).map(document)
    }
}

/// A document that exists or may exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document {
    pub operation: usize,
    /// Its number, or that of the GET that reads a part.
    pub number: u64,
    pub acknowledged: bool,
}
