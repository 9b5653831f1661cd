//! Finds transactions of unknown outcome that the server applied only in part.

use super::{Audit, CORRUPTED, Content, REPEATED};
use crate::numbers::Slot;
use crate::pairs::State;
use crate::transactions::Span;

/// A transaction in which some writes are present and some are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half<'a> {
    spans: &'a [Span],
    /// The number of the first document whose write is missing.
    pub missing: u64,
}

impl<'a> Audit<'a> {
    /// The transactions that the sightings show in part.
    pub fn halves(&self) -> Vec<Half<'a>> {
        let all = self.ledger.changes().into_iter().flat_map(|changes| changes.transactions.iter());
        all.filter_map(|spans| self.half(spans)).filter(|half| !self.excused.contains(&half.spans)).collect()
    }

    /// The numbers of all documents of a transaction.
    pub fn numbers_of(&self, half: &Half<'_>) -> impl Iterator<Item = u64> {
        let slots: Vec<Slot> = half.spans.iter().flat_map(|span| span.slots()).collect();
        slots.into_iter().filter_map(|slot| self.ledger.allocation().global(slot))
    }

    /// Excuses the transactions whose documents show no half transaction at a second look, after the end of
    /// the scan: the server committed them during the scan.
    pub fn excuse_late_commits(&mut self, second: &Audit<'a>) {
        let confirmed = second.halves();
        let late = self.halves().into_iter().filter(|half| confirmed.iter().all(|it| it.spans != half.spans));
        let late: Vec<_> = late.map(|half| half.spans).collect();
        self.excused.extend(late);
    }

    fn half(&self, spans: &'a [Span]) -> Option<Half<'a>> {
        let (mut is_partly_there, mut missing) = (false, None);
        for slot in spans.iter().flat_map(|span| span.slots()) {
            match self.is_written(slot) {
                Some(true) => is_partly_there = true,
                Some(false) => missing = missing.or(self.ledger.allocation().global(slot)),
                None => {}
            }
        }
        let missing = missing.filter(|_| is_partly_there)?;
        Some(Half { spans, missing })
    }

    /// Whether the sightings show the write of a document in doubt; `None` if they leave that open.
    fn is_written(&self, slot: Slot) -> Option<bool> {
        if self.touched.contains(slot) {
            return None;
        }
        let known = self.versions.at(slot);
        let seen = self.seen.get(slot.worker as usize)?.get(slot.local);
        let is_present = seen != 0;
        match self.ledger.state_at(slot) {
            _ if known.is_deleted() => None,
            _ if known.may_be_deleted() => Some(!is_present),
            // The document is a violation already, and shows neither version.
            _ if known.is_doubtful() && matches!(seen, CORRUPTED | REPEATED) => None,
            _ if known.is_doubtful() => is_present.then(|| self.renewed.contains(&slot)),
            State::Unknown => Some(is_present),
            _ => None,
        }
    }

    /// Notes a document in doubt that exists in the version of the unanswered replacement.
    #[inline]
    pub(super) fn note_renewed(&mut self, slot: Slot, content: Content) {
        let known = self.versions.at(slot);
        if known.is_doubtful() && content == Content::Follows(known.sent()) {
            self.renewed.insert(slot);
        }
    }
}
