//! Checks reads against the ledger. A read must not return a version older than the last version that was
//! acknowledged, or shown by an earlier read, before it was sent. It must not return a version that was never
//! sent. For a read that may be stale, only the second rule holds.

use plimsoll_document::{Encoded, STAMP_FIELD};
use plimsoll_ledger::VERSION_MAX;
use plimsoll_measure::outcome::Rejection;

use super::{OperationBuilder, identity_of};
use crate::scenario::Stamp;
use crate::setup::Freshness;
use crate::shared_bounds::Origin;
use crate::statement;
use crate::worker_ledger::{Bound, Owner, PendingChange, PickedDocument};

/// Average number of compared bytes per read; the version is checked in every read.
const BYTES_A_READ: u64 = 256;
/// A stamp at a document's end: type, name, value, and the end of the document.
const STAMP_BYTES: usize = 1 + STAMP_FIELD.len() + 1 + 8 + 1;

/// Compares reads with the documents that were written.
#[derive(Debug, Default)]
pub(super) struct ReadChecker {
    scratch: Vec<u8>,
    /// The number of bytes that may be compared now.
    credit: u64,
}

/// The document's state in the answer of an operation that changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnedState {
    /// The state before the change.
    Before,
    /// The state after the change.
    After,
}

impl OperationBuilder {
    /// Checks a read of a picked document.
    ///
    /// # Errors
    /// The class of the violation.
    pub fn judge_read(
        &self,
        picked: &PickedDocument,
        shows: ReturnedState,
        found: Option<&[u8]>,
    ) -> Result<(), Rejection> {
        if picked.owner == Owner::Any {
            return self.judge_shared(picked, found);
        }
        let (known, touched) = {
            let ledger = self.ledger();
            (ledger.version(picked.number), ledger.is_touched(picked.number))
        };
        let stale = picked.freshness == Freshness::MayBeStale;
        let Some(found) = found else {
            let removed = known.may_be_deleted() && picked.change != Some(PendingChange::Removal);
            let may_vanish = touched || self.setup.removes_any;
            return if removed || stale { Ok(()) } else { missing(&picked.bound, may_vanish) };
        };
        let Some(least) = picked.bound.least.filter(|_| !touched) else { return Ok(()) };
        if self.setup.effects.is_some() {
            return self.judge_updated(picked.number, found);
        }
        let (least, most) = match (picked.change, shows) {
            (Some(PendingChange::Version(version)), ReturnedState::After) => (version, version),
            // Other increments may be in flight.
            (Some(PendingChange::Increment), _) => (least, known.sent()),
            (Some(_), _) => (least, least),
            (None, _) if known.may_be_deleted() => (least, VERSION_MAX),
            (None, _) => (least, known.sent()),
        };
        let version = self.shown(picked.number, found).ok_or(Rejection::CorruptedRead)?;
        if version < least && !stale {
            return Err(Rejection::StaleRead);
        }
        if picked.bound.read.is_some_and(|read| version < read) && !stale {
            return Err(Rejection::NonMonotonicRead);
        }
        if version > most || !self.follows(picked.number, version, found) {
            return Err(Rejection::CorruptedRead);
        }
        if picked.change.is_none() {
            self.note_shown(picked, version);
        }
        Ok(())
    }

    /// Checks a document that updates of several kinds change: it shows no update that was not sent. A read may lack updates,
    /// because others are in flight.
    fn judge_updated(&self, number: u64, found: &[u8]) -> Result<(), Rejection> {
        if !self.is_named(number, found) {
            return Err(Rejection::CorruptedRead);
        }
        let Some(effects) = &self.setup.effects else { return Ok(()) };
        let mut checker = self.checker();
        checker.credit += BYTES_A_READ;
        let Some(credit) = checker.credit.checked_sub(found.len() as u64) else { return Ok(()) };
        checker.credit = credit;
        checker.scratch.clear();
        self.write_document(&mut checker.scratch, number);
        let sent = |kind| self.ledger().updates(kind, number).as_doubtful();
        match effects.judge(&checker.scratch, found, sent) {
            Ok(judged) if judged.exceeding == 0 => Ok(()),
            _ => Err(Rejection::CorruptedRead),
        }
    }

    /// Raises the bounds of later reads to the version that a read has shown. With counters, this worker's ledger is left out:
    /// several increments may be in flight, so their number is no version of this ledger.
    fn note_shown(&self, picked: &PickedDocument, version: u32) {
        let mut ledger = self.ledger();
        if self.setup.counters.is_none() {
            ledger.saw(picked.number, version, picked.validity, picked.bound.epoch);
        }
        ledger.show_to_all(picked.number, version, picked.validity, picked.bound.origin);
    }

    /// Checks a read of a document that another worker may own. The version must not be older than the
    /// version shared when the read was sent, nor than a version that a read of any worker had shown by then.
    /// If the document is no longer shared, another change may explain any result.
    fn judge_shared(&self, picked: &PickedDocument, found: Option<&[u8]>) -> Result<(), Rejection> {
        let is_shared = self.ledger().shared_bound(picked.number, picked.validity, Origin::Unknown).promised;
        if !is_shared || !picked.bound.promised {
            return Ok(());
        }
        let stale = picked.freshness == Freshness::MayBeStale;
        let Some(found) = found else { return if stale { Ok(()) } else { Err(Rejection::StaleRead) } };
        let Some(least) = picked.bound.least else { return Ok(()) };
        if self.setup.effects.is_some() {
            // Only its owner knows the updates of a document by kind.
            let is_named = self.is_named(picked.number, found);
            return if is_named { Ok(()) } else { Err(Rejection::CorruptedRead) };
        }
        let version = self.shown(picked.number, found).ok_or(Rejection::CorruptedRead)?;
        if version < least && !stale {
            return Err(Rejection::StaleRead);
        }
        if picked.bound.read.is_some_and(|read| version < read) && !stale {
            return Err(Rejection::NonMonotonicRead);
        }
        if !self.follows(picked.number, version, found) {
            return Err(Rejection::CorruptedRead);
        }
        self.ledger().show_to_all(picked.number, version, picked.validity, picked.bound.origin);
        Ok(())
    }

    /// Checks the first document of a read in `_id` order that starts at a picked document: no earlier document matches.
    ///
    /// # Errors
    /// The class of the violation.
    pub fn judge_first(&self, picked: &PickedDocument, found: Option<&[u8]>) -> Result<(), Rejection> {
        let named = found.filter(|found| self.is_named(picked.number, found));
        self.judge_read(picked, ReturnedState::Before, named)
    }

    /// Whether a document begins with this receipt.
    fn is_named(&self, number: u64, found: &[u8]) -> bool {
        let mut checker = self.checker();
        checker.scratch.clear();
        statement::receipt(
            &mut checker.scratch,
            "_id",
            self.setup.id,
            &identity_of(self.setup.run, 0, number),
        );
        found.get(4..).is_some_and(|elements| elements.starts_with(&checker.scratch))
    }

    /// The version of a document, or the increments that its counters show; `None` if the document is another one, or corrupted.
    fn shown(&self, number: u64, found: &[u8]) -> Option<u32> {
        let Some(counters) = &self.setup.counters else { return self.version_in(number, found) };
        let mut checker = self.checker();
        checker.scratch.clear();
        self.write_document(&mut checker.scratch, number);
        // A field that is no integer says nothing about the increments, so any number of them is possible.
        let least = || i64::from(self.ledger().version(number).acknowledged());
        match counters.shown(&checker.scratch, found).ok()? {
            Some(shown) if shown.least != shown.most => None,
            shown => u32::try_from(shown.map_or_else(least, |shown| shown.least)).ok(),
        }
    }

    /// The version in a document's stamp; `None` if it is another document.
    fn version_in(&self, number: u64, found: &[u8]) -> Option<u32> {
        if self.setup.stamp == Stamp::Off {
            return Some(0);
        }
        stamp_at_end(found).and_then(|stamp| self.setup.run.receipt(number).version_of(stamp))
    }

    /// Whether the compared bytes match that version.
    fn follows(&self, number: u64, version: u32, found: &[u8]) -> bool {
        if self.setup.counters.is_some() {
            // The content was compared when its increments were counted.
            return true;
        }
        let mut checker = self.checker();
        checker.credit += BYTES_A_READ;
        let Some(credit) = checker.credit.checked_sub(found.len() as u64) else { return true };
        checker.credit = credit;
        let scratch = &mut checker.scratch;
        scratch.clear();
        let identity = identity_of(self.setup.run, version, number);
        let source = self.setup.source.as_ref();
        let encoded = source.map(|source| source.encode_version(version, number, &identity, scratch));
        encoded == Some(Encoded::Document) && scratch == found
    }
}

/// Judges a read that found no document. If the document `may_vanish`, operations that the bound does not
/// know may have removed it.
fn missing(bound: &Bound, may_vanish: bool) -> Result<(), Rejection> {
    match bound {
        Bound { promised: true, .. } => Err(Rejection::StaleRead),
        Bound { read: Some(_), .. } if !may_vanish => Err(Rejection::NonMonotonicRead),
        _ => Ok(()),
    }
}

/// The stamp of a document, which is its last field.
fn stamp_at_end(document: &[u8]) -> Option<i64> {
    let tail = document.last_chunk::<STAMP_BYTES>()?;
    let named = tail[0] == 0x12 && tail[1..].starts_with(STAMP_FIELD.as_bytes());
    let value = tail[1 + STAMP_FIELD.len()..].split_first()?.1.first_chunk::<8>()?;
    named.then(|| i64::from_le_bytes(*value))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_ledger::State;
    use plimsoll_measure::outcome::{Doubt, Outcome};

    use super::*;
    use crate::keys::Keys;
    use crate::setup::{Purpose, Validity};
    use crate::shared_bounds::SharedBounds;

    const ORIGIN: Origin = Origin::Known(1);
    use crate::operation_builder::PendingWrite;
    use crate::testing::{builder, builder_of, pending_replacement, setup};

    fn document(builder: &OperationBuilder, version: u32, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        builder.write_version(&mut out, version, number);
        out
    }

    fn read(builder: &OperationBuilder) -> PickedDocument {
        builder.ledger().pick(&Keys::Uniform, Purpose::Read, |_| 0).unwrap()
    }

    /// A document that was replaced once, and a pick of it for a read.
    fn replaced() -> (OperationBuilder, PickedDocument) {
        let builder = builder(1);
        let (_, mut pending) = pending_replacement(&builder);
        builder.conclude(&mut pending, Outcome::Acknowledged, true);
        let picked = read(&builder);
        (builder, picked)
    }

    #[test]
    fn a_document_that_was_read_may_be_missing_only_if_something_may_have_removed_it() {
        let read = Bound { read: Some(1), ..Bound::default() };
        assert_eq!(missing(&read, false), Err(Rejection::NonMonotonicRead));
        assert_eq!(missing(&read, true), Ok(()));
    }

    #[test]
    fn the_acknowledged_version_is_valid_and_an_earlier_one_is_stale() {
        let (builder, picked) = replaced();
        let judge = |version| {
            let found = document(&builder, version, picked.number);
            builder.judge_read(&picked, ReturnedState::Before, Some(&found))
        };
        assert_eq!(judge(1), Ok(()));
        assert_eq!(judge(0), Err(Rejection::StaleRead));
        assert_eq!(judge(2), Err(Rejection::CorruptedRead));
    }

    #[test]
    fn a_read_that_may_be_stale_shows_any_sent_version_or_none() {
        let (builder, picked) = replaced();
        let picked = PickedDocument { freshness: Freshness::MayBeStale, ..picked };
        let judge = |found: Option<&[u8]>| builder.judge_read(&picked, ReturnedState::Before, found);
        let of = |version| document(&builder, version, picked.number);
        assert_eq!([judge(None), judge(Some(&of(0))), judge(Some(&of(1)))], [Ok(()); 3]);
        assert_eq!(judge(Some(&of(2))), Err(Rejection::CorruptedRead), "it was never sent");
        let mut flipped = of(0);
        let at = flipped.len() / 2;
        flipped[at] ^= 1;
        assert_eq!(judge(Some(&flipped)), Err(Rejection::CorruptedRead));
    }

    type Judge = Box<dyn Fn(&OperationBuilder, Option<u32>) -> Result<(), Rejection>>;

    /// Sends a replacement without an answer, and returns a judge of reads that are sent at once.
    fn judge_doubtful(validity: Validity) -> (OperationBuilder, u64, Judge) {
        let builder = builder(1);
        let (number, mut pending) = pending_replacement(&builder);
        builder.conclude(&mut pending, Outcome::Unknown(Doubt::ConnectionLost), false);
        let judge = move |builder: &OperationBuilder, version: Option<u32>| {
            let sent = builder.as_sent(PickedDocument { validity, ..read(builder) }, ORIGIN);
            let found = version.map(|version| document(builder, version, number));
            builder.judge_read(&sent, ReturnedState::Before, found.as_deref())
        };
        (builder, number, Box::new(judge))
    }

    #[test]
    fn after_a_read_of_an_unanswered_version_no_read_shows_an_earlier_one() {
        for validity in [Validity::UntilReconnect, Validity::Permanent] {
            let (builder, _, judge) = judge_doubtful(validity);
            assert_eq!([0, 1, 1].map(|version| judge(&builder, Some(version))), [Ok(()); 3]);
            assert_eq!(judge(&builder, Some(0)), Err(Rejection::NonMonotonicRead), "{validity:?}");
            assert_eq!(judge(&builder, None), Err(Rejection::StaleRead), "it was acknowledged before");
        }
    }

    #[test]
    fn a_read_that_may_be_rolled_back_raises_no_bound() {
        let (builder, number, judge) = judge_doubtful(Validity::Unproven);
        assert_eq!([1, 0].map(|version| judge(&builder, Some(version))), [Ok(()); 2]);
        assert!(!builder.ledger().version(number).was_read());
    }

    #[test]
    fn a_restarted_server_may_forget_a_read_version_unless_a_majority_has_it() {
        let backwards = Err(Rejection::NonMonotonicRead);
        for (validity, expected) in [(Validity::UntilReconnect, Ok(())), (Validity::Permanent, backwards)] {
            let (builder, number, judge) = judge_doubtful(validity);
            assert_eq!(judge(&builder, Some(1)), Ok(()));
            builder.ledger().reconnected();
            assert_eq!(judge(&builder, Some(0)), expected, "{validity:?}");
            assert_eq!(builder.ledger().version(number).was_read(), validity == Validity::Permanent);
        }
    }

    #[test]
    fn an_answer_that_arrives_after_a_reconnect_raises_no_bound() {
        let (builder, number, judge) = judge_doubtful(Validity::UntilReconnect);
        let early =
            builder.as_sent(PickedDocument { validity: Validity::UntilReconnect, ..read(&builder) }, ORIGIN);
        builder.ledger().reconnected();
        let found = document(&builder, 1, number);
        assert_eq!(builder.judge_read(&early, ReturnedState::Before, Some(&found)), Ok(()));
        assert_eq!(judge(&builder, Some(0)), Ok(()));
    }

    #[test]
    fn a_read_that_was_sent_before_another_showed_a_version_is_not_bound_by_it() {
        let (builder, number, judge) = judge_doubtful(Validity::Permanent);
        let early = builder.as_sent(read(&builder), ORIGIN);
        assert_eq!(judge(&builder, Some(1)), Ok(()));
        let found = document(&builder, 0, number);
        assert_eq!(builder.judge_read(&early, ReturnedState::Before, Some(&found)), Ok(()));
    }

    #[test]
    fn an_insert_without_an_answer_that_was_read_must_stay() {
        for validity in [Validity::UntilReconnect, Validity::Permanent] {
            let builder = builder(1);
            builder.ledger().settle(0..1, State::Unknown);
            let judge = |found: Option<&[u8]>| {
                let sent = builder.as_sent(PickedDocument { validity, ..read(&builder) }, ORIGIN);
                builder.judge_read(&sent, ReturnedState::Before, found)
            };
            let stored = document(&builder, 0, 0);
            assert_eq!([judge(None), judge(Some(&stored))], [Ok(()); 2]);
            assert_eq!(judge(None), Err(Rejection::NonMonotonicRead), "{validity:?}");
            assert_eq!(judge(Some(&document(&builder, 1, 0))), Err(Rejection::CorruptedRead), "never sent");
        }
    }

    #[test]
    fn the_bound_is_that_of_the_moment_when_the_read_is_sent() {
        let builder = builder(1);
        let prepared = read(&builder);
        let (number, mut pending) = pending_replacement(&builder);
        builder.conclude(&mut pending, Outcome::Acknowledged, true);
        let judge = |picked: PickedDocument| {
            let found = document(&builder, 0, number);
            builder.judge_read(&picked, ReturnedState::Before, Some(&found))
        };
        assert_eq!(judge(prepared), Ok(()), "by the bound of its preparation");
        assert_eq!(judge(builder.as_sent(prepared, ORIGIN)), Err(Rejection::StaleRead));
    }

    #[test]
    fn a_version_sent_during_the_read_is_valid_too() {
        let builder = builder(1);
        let picked = read(&builder);
        let (number, _) = pending_replacement(&builder);
        for version in [0, 1] {
            let found = document(&builder, version, number);
            assert_eq!(builder.judge_read(&picked, ReturnedState::Before, Some(&found)), Ok(()));
        }
    }

    #[test]
    fn content_that_does_not_match_its_version_is_corrupted() {
        let (builder, picked) = replaced();
        let mut found = document(&builder, 1, picked.number);
        let at = found.len() / 2;
        found[at] ^= 1;
        assert_eq!(
            builder.judge_read(&picked, ReturnedState::Before, Some(&found)),
            Err(Rejection::CorruptedRead)
        );
        let other = document(&builder, 1, picked.number + 1);
        assert_eq!(
            builder.judge_read(&picked, ReturnedState::Before, Some(&other)),
            Err(Rejection::CorruptedRead)
        );
    }

    #[test]
    fn a_missing_document_is_a_violation_only_if_promised() {
        let (builder, picked) = replaced();
        assert_eq!(builder.judge_read(&picked, ReturnedState::Before, None), Err(Rejection::StaleRead));
        builder.ledger().pick(&Keys::Uniform, Purpose::Remove, |_| 0).unwrap();
        assert_eq!(builder.judge_read(&picked, ReturnedState::Before, None), Ok(()));
    }

    /// A document that one worker replaced, and a read of it by another worker.
    fn shared() -> (OperationBuilder, OperationBuilder, PickedDocument) {
        let (owner, reader, shared) = (builder(1), builder(1), Arc::<SharedBounds>::default());
        [&owner, &reader].iter().for_each(|builder| builder.ledger().share(shared.clone()));
        let (_, mut pending) = pending_replacement(&owner);
        owner.conclude(&mut pending, Outcome::Acknowledged, true);
        let picked = (0..1_000_000).find_map(|random| reader.ledger().pick_shared(random)).unwrap();
        (owner, reader, picked)
    }

    #[test]
    fn a_read_by_another_worker_shows_at_least_the_version_shared_when_it_is_sent() {
        let (owner, reader, picked) = shared();
        let judge = |picked: &PickedDocument, version: Option<u32>| {
            let found = version.map(|version| document(&owner, version, picked.number));
            reader.judge_read(picked, ReturnedState::Before, found.as_deref())
        };
        let early = reader.as_sent(picked, ORIGIN);
        assert_eq!([1, 2].map(|version| judge(&early, Some(version))), [Ok(()); 2]);
        assert_eq!([judge(&early, Some(0)), judge(&early, None)], [Err(Rejection::StaleRead); 2]);
        assert_eq!(judge(&PickedDocument { freshness: Freshness::MayBeStale, ..early }, Some(0)), Ok(()));
        assert_eq!(judge(&early.in_part(), Some(0)), Ok(()), "a part of it has no version");
        assert_eq!(judge(&early.in_part(), None), Err(Rejection::StaleRead));
        let (_, mut pending) = pending_replacement(&owner);
        owner.conclude(&mut pending, Outcome::Acknowledged, true);
        assert_eq!(judge(&early, Some(1)), Ok(()), "it was sent before the acknowledgement");
        assert_eq!(judge(&reader.as_sent(picked, ORIGIN), Some(1)), Err(Rejection::StaleRead));
        let mut flipped = document(&owner, 2, picked.number);
        let at = flipped.len() / 2;
        flipped[at] ^= 1;
        let judged = reader.judge_read(&early, ReturnedState::Before, Some(&flipped));
        assert_eq!(judged, Err(Rejection::CorruptedRead));
    }

    /// Judges reads of a document whose next replacement has no answer: a read by `first`, then a read by
    /// `second`.
    fn judge_in_turn(
        validity: Validity,
        of_owner_first: bool,
        versions: [u32; 2],
    ) -> [Result<(), Rejection>; 2] {
        let (owner, reader, picked) = shared();
        let (number, mut pending) = pending_replacement(&owner);
        owner.conclude(&mut pending, Outcome::Unknown(Doubt::ConnectionLost), false);
        let own = read(&owner);
        assert_eq!((own.number, picked.number), (number, number));
        let in_turn = if of_owner_first {
            [(&owner, own), (&reader, picked)]
        } else {
            [(&reader, picked), (&owner, own)]
        };
        let judge = |(by, picked): (&OperationBuilder, PickedDocument), version| {
            let sent = by.as_sent(PickedDocument { validity, ..picked }, ORIGIN);
            by.judge_read(&sent, ReturnedState::Before, Some(&document(&owner, version, number)))
        };
        let [first, second] = in_turn;
        [judge(first, versions[0]), judge(second, versions[1])]
    }

    #[test]
    fn no_worker_reads_an_earlier_version_than_another_has_read_at_majority() {
        let backwards = Err(Rejection::NonMonotonicRead);
        for of_owner_first in [true, false] {
            let judge = |validity, versions| judge_in_turn(validity, of_owner_first, versions);
            assert_eq!(judge(Validity::Permanent, [2, 1]), [Ok(()), backwards]);
            assert_eq!(judge(Validity::Permanent, [1, 2]), [Ok(()); 2]);
            assert_eq!(judge(Validity::Permanent, [2, 2]), [Ok(()); 2]);
            assert_eq!(judge(Validity::Unproven, [2, 1]), [Ok(()); 2], "it may be rolled back");
            assert_eq!(judge(Validity::UntilReconnect, [2, 1]), [Ok(()); 2], "the server may restart");
        }
    }

    #[test]
    fn a_later_primary_is_bound_by_what_an_earlier_one_has_shown_only_in_linearizable_reads() {
        let backwards = Err(Rejection::NonMonotonicRead);
        for (validity, next, expected) in [
            (Validity::Permanent, ORIGIN, backwards),
            (Validity::Permanent, Origin::Known(2), Ok(())),
            (Validity::Permanent, Origin::Unknown, Ok(())),
            (Validity::Ordered, ORIGIN, backwards),
            (Validity::Ordered, Origin::Known(2), backwards),
            (Validity::Ordered, Origin::Unknown, backwards),
        ] {
            let (owner, reader, picked) = shared();
            let (number, mut pending) = pending_replacement(&owner);
            owner.conclude(&mut pending, Outcome::Unknown(Doubt::ConnectionLost), false);
            let judge = |by: &OperationBuilder, picked, origin, version| {
                let sent = by.as_sent(PickedDocument { validity, ..picked }, origin);
                by.judge_read(&sent, ReturnedState::Before, Some(&document(&owner, version, number)))
            };
            assert_eq!(judge(&owner, read(&owner), ORIGIN, 2), Ok(()));
            assert_eq!(judge(&reader, picked, next, 1), expected, "{validity:?} {next:?}");
        }
    }

    #[test]
    fn a_read_that_was_sent_before_another_worker_read_a_version_is_not_bound_by_it() {
        let (owner, reader, picked) = shared();
        let (number, mut pending) = pending_replacement(&owner);
        owner.conclude(&mut pending, Outcome::Unknown(Doubt::ConnectionLost), false);
        let validity = Validity::Permanent;
        let early = reader.as_sent(PickedDocument { validity, ..picked }, ORIGIN);
        let own = owner.as_sent(PickedDocument { validity, ..read(&owner) }, ORIGIN);
        let judge = |by: &OperationBuilder, picked, version| {
            by.judge_read(picked, ReturnedState::Before, Some(&document(&owner, version, number)))
        };
        assert_eq!([judge(&owner, &own, 2), judge(&reader, &early, 1)], [Ok(()); 2]);
        let late = reader.as_sent(early, ORIGIN);
        assert_eq!(judge(&reader, &late, 1), Err(Rejection::NonMonotonicRead));
    }

    #[test]
    fn a_read_proves_nothing_once_the_owner_removes_or_touches_the_document() {
        let removes = |owner: &OperationBuilder| {
            owner.ledger().pick(&Keys::Uniform, Purpose::Remove, |_| 0).unwrap();
        };
        let touches = |owner: &OperationBuilder| owner.ledger().touch(0);
        let touches_all = |owner: &OperationBuilder| owner.ledger().touch_all();
        for change in [&removes as &dyn Fn(&OperationBuilder), &touches, &touches_all] {
            let (owner, reader, picked) = shared();
            let sent = reader.as_sent(picked, ORIGIN);
            assert_eq!(reader.judge_read(&sent, ReturnedState::Before, None), Err(Rejection::StaleRead));
            change(&owner);
            assert_eq!(reader.judge_read(&sent, ReturnedState::Before, None), Ok(()));
            assert!(reader.ledger().pick_shared(0).is_none());
        }
    }

    #[test]
    fn a_document_touched_meanwhile_is_not_judged() {
        let (builder, picked) = replaced();
        builder.ledger().touch(picked.number);
        assert_eq!(builder.judge_read(&picked, ReturnedState::Before, Some(&[5, 0, 0, 0, 0])), Ok(()));
    }

    /// A builder with `count` acknowledged documents and updates of several kinds.
    fn builder_of_kinds(count: u64) -> OperationBuilder {
        let section = r#"{"collection": "d.c", "document": {"n": 5, "t": {"$text": {"bytes": 10000}}}}"#;
        let updates = r#"{"update": {"update": {"one_of": [{"$inc": {"n": 1}}, {"$inc": {"n": 2}}]}}}"#;
        let setup = setup(section, &[("update", updates)]).unwrap();
        assert!(setup.effects.is_some());
        builder_of(setup, count)
    }

    #[test]
    fn a_read_of_another_document_is_corrupted_with_updates_of_several_kinds_too() {
        let (owner, reader, shared) =
            (builder_of_kinds(2), builder_of_kinds(2), Arc::<SharedBounds>::default());
        [&owner, &reader].iter().for_each(|builder| builder.ledger().share(shared.clone()));
        let picked = read(&owner);
        let judge = |by: &OperationBuilder, picked: &PickedDocument, number| {
            by.judge_read(picked, ReturnedState::Before, Some(&document(&owner, 0, number)))
        };
        let (own, other) = (picked.number, 1 - picked.number);
        assert_eq!(judge(&owner, &picked, own), Ok(()));
        assert_eq!(judge(&owner, &picked, other), Err(Rejection::CorruptedRead));
        assert_eq!(judge(&owner, &picked.in_part(), other), Ok(()), "a part has no `_id`");
        let of_any = publish_update(&owner, &reader);
        assert_eq!(judge(&reader, &of_any, of_any.number), Ok(()));
        assert_eq!(judge(&reader, &of_any, 1 - of_any.number), Err(Rejection::CorruptedRead));
        assert_eq!(judge(&reader, &of_any.in_part(), 1 - of_any.number), Ok(()));
    }

    /// Acknowledges an update of the owner's first document, which shares it, and a pick of it for a read by the reader.
    fn publish_update(owner: &OperationBuilder, reader: &OperationBuilder) -> PickedDocument {
        let updated = owner.ledger().pick(&Keys::Uniform, Purpose::Update(0), |_| 0).unwrap();
        let mut pending = updated.change.map(|change| PendingWrite::of(updated.number, change));
        owner.conclude(&mut pending, Outcome::Acknowledged, true);
        let picked = (0..1_000_000).find_map(|random| reader.ledger().pick_shared(random)).unwrap();
        reader.as_sent(picked, ORIGIN)
    }

    #[test]
    fn a_change_returns_the_version_before_or_after_it() {
        let builder = builder(1);
        let picked = builder.ledger().pick(&Keys::Uniform, Purpose::Replace, |_| 0).unwrap();
        let judge = |shows, version| {
            let found = document(&builder, version, picked.number);
            builder.judge_read(&picked, shows, Some(&found))
        };
        assert_eq!((judge(ReturnedState::Before, 0), judge(ReturnedState::After, 1)), (Ok(()), Ok(())));
        assert_eq!(judge(ReturnedState::Before, 1), Err(Rejection::CorruptedRead));
        assert_eq!(judge(ReturnedState::After, 0), Err(Rejection::StaleRead));
    }
}
