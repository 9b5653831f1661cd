//! Lists the documents that a worker sent, with their outcomes.

use plimsoll_ledger::{Counts, State, WorkerLedger};

use crate::document_numbers::Layout;

/// The documents that a worker sent with one operation, and their outcomes.
#[derive(Clone, Debug)]
pub struct SentDocuments {
    operation: usize,
    layout: Layout,
    ledger: WorkerLedger,
}

impl SentDocuments {
    pub(crate) const fn new(operation: usize, layout: Layout, ledger: WorkerLedger) -> Self {
        Self { operation, layout, ledger }
    }

    /// Documents by state.
    pub fn counts(&self) -> Counts {
        self.ledger.counts()
    }

    /// The documents that exist or may exist.
    pub(crate) fn expected(self) -> impl Iterator<Item = Document> {
        let Self { operation, layout, ledger } = self;
        (0..layout.taken).filter_map(move |local| {
            let acknowledged = match ledger.state(local) {
                State::Acknowledged => true,
                State::Unknown => false,
                State::NotSent | State::Rejected => return None,
            };
            Some(Document { operation, number: layout.number(local), acknowledged })
        })
    }
}

/// A document that exists or may exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document {
    pub operation: usize,
    pub number: u64,
    pub acknowledged: bool,
}
