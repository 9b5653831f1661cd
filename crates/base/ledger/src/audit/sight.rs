//! Compares one stored document with its promise.

use std::collections::BTreeMap;

use super::{
    Audit, CORRUPTED, Content, EXCEEDING, EXPLAINED, Found, INTACT, LACKING, OtherWriters, REPEATED, UNDONE,
    findings,
};
use crate::intents::Intent;
use crate::numbers::Slot;
use crate::pairs::State;
use crate::receipt::Run;

/// The verdict on a sighting of a sent document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The document exists with this content.
    There(Content),
    /// The content contradicts the promise, and an unrecorded change explains it.
    Explained,
    /// The content is older than promised. The document counts as not seen, so that the last step finds the
    /// loss.
    Undone,
}

impl Audit<'_> {
    /// Adds the sighting of one stored document.
    #[inline]
    pub fn see(&mut self, found: Found) {
        match found {
            Found::Receipt { number, content, stamp } => self.see_receipt(number, content, stamp),
            Found::OtherRun { run, stamp } => self.see_other_run(run, stamp),
            Found::Foreign { stamp } => self.see_foreign(stamp),
        }
    }

    #[inline]
    fn see_receipt(&mut self, number: u64, content: Content, stamp: Option<i64>) {
        let slot = self.ledger.allocation().locate(number);
        match slot.map(|slot| (slot, self.ledger.state_at(slot))) {
            Some((slot, state)) if state != State::NotSent => {
                let content = self.judge(number, content, stamp);
                match self.verdict(slot, state, content) {
                    Verdict::There(content) => {
                        self.compare_with_reads(number, slot, content);
                        self.compare_counter(number, slot, content);
                        self.note_renewed(slot, content);
                        self.see_sent(number, slot, content);
                    }
                    Verdict::Explained => {
                        self.set_aside(slot, EXPLAINED);
                        self.see_sent(number, slot, Content::Follows(0));
                    }
                    Verdict::Undone => self.set_aside(slot, UNDONE),
                }
            }
            _ if !self.ledger.is_responsible_for(number) => {}
            Some((slot, _)) if self.touched.contains(slot) => self.tally.upserted += 1,
            _ => self.tally.phantom.note(number),
        }
    }

    /// Compares the increments that a counter shows with those acknowledged and sent. Unrecorded changes may explain a difference.
    fn compare_counter(&mut self, number: u64, slot: Slot, content: Content) {
        let (Content::Counted(Some(_)) | Content::Updated { .. }) = content else { return };
        let (promised, unseen) = (self.versions.at(slot), self.ledger.unseen());
        let is_exempt =
            self.touched.contains(slot) || promised.may_be_deleted() || unseen.contains(Intent::Alter);
        if is_exempt {
            return;
        }
        let (lost, extra, is_torn) = match content {
            Content::Counted(Some(shown)) => {
                let lost = i64::from(promised.acknowledged()).saturating_sub(shown.least);
                let extra = shown.most.saturating_sub(i64::from(promised.sent()));
                (lost.max(0).unsigned_abs(), extra.max(0).unsigned_abs(), shown.least != shown.most)
            }
            Content::Updated { lacking, exceeding } => (lacking, exceeding, false),
            _ => return,
        };
        if lost > 0 {
            self.tally.lost_increments.note_many(number, lost);
            self.mark_counter(slot, LACKING);
        }
        if extra > 0 && !unseen.contains(Intent::Replace) {
            self.tally.extra_increments.note_many(number, extra);
            self.mark_counter(slot, EXCEEDING);
        }
        if lost == 0 && extra == 0 && is_torn {
            self.tally.corrupted.note(number);
            self.mark_counter(slot, LACKING | EXCEEDING);
        }
    }

    /// Marks a document whose counters are wrong. This is rare.
    #[cold]
    fn mark_counter(&mut self, slot: Slot, bits: u64) {
        let counters = &mut self.counters[slot.worker as usize];
        counters.put(slot.local, counters.get(slot.local) | bits);
    }

    /// Notes a document in an earlier version than a read has shown.
    #[inline]
    fn compare_with_reads(&mut self, number: u64, slot: Slot, content: Content) {
        let promised = self.versions.at(slot);
        let Content::Follows(found) = content else { return };
        if found < promised.promised() && promised.was_read() && !self.touched.contains(slot) {
            self.tally.read_then_gone.note(number);
        }
    }

    fn see_sent(&mut self, number: u64, slot: Slot, content: Content) {
        let seen = &mut self.seen[slot.worker as usize];
        let now = match (seen.get(slot.local), content) {
            (0, Content::Follows(_) | Content::Counted(_) | Content::Updated { .. }) => INTACT,
            (0, Content::Differs) => CORRUPTED,
            _ => REPEATED,
        };
        seen.put(slot.local, now);
        if content == Content::Differs && !self.touched.contains(slot) {
            self.tally.corrupted.note(number);
        }
    }

    /// Marks a contradiction. This is rare.
    #[cold]
    fn set_aside(&mut self, slot: Slot, bit: u64) {
        let aside = &mut self.aside[slot.worker as usize];
        aside.put(slot.local, aside.get(slot.local) | bit);
    }

    /// Compares the found version with the promised versions and with the intended changes.
    #[inline]
    fn verdict(&self, slot: Slot, state: State, content: Content) -> Verdict {
        let (promised, unseen) = (self.versions.at(slot), self.ledger.unseen());
        if self.touched.contains(slot) || promised.is_deleted() {
            return Verdict::There(content);
        }
        let altered = unseen.contains(Intent::Alter);
        match content {
            _ if altered && state == State::Rejected => Verdict::Explained,
            Content::Differs if altered => Verdict::Explained,
            Content::Differs | Content::Counted(_) | Content::Updated { .. } => Verdict::There(content),
            Content::Follows(_) if promised.may_be_deleted() => Verdict::There(content),
            Content::Follows(found) if altered && found < promised.promised() => Verdict::Explained,
            Content::Follows(found) if found < promised.acknowledged() => Verdict::Undone,
            Content::Follows(found) if found > promised.sent() => {
                if unseen.contains(Intent::Replace) {
                    Verdict::Explained
                } else {
                    Verdict::There(Content::Differs)
                }
            }
            Content::Follows(_) => Verdict::There(content),
        }
    }

    /// Content whose stamp belongs to another receipt does not follow from this one.
    fn judge(&self, number: u64, content: Content, stamp: Option<i64>) -> Content {
        match stamp {
            Some(stamp) if stamp != self.ledger.run().receipt(number).stamp() => Content::Differs,
            _ => content,
        }
    }

    /// A document of another run is foreign, also in a collection that was empty before this run.
    /// A stamp that this run sent reveals a copy of one of its documents under another `_id`.
    fn see_other_run(&mut self, run: Run, stamp: Option<i64>) {
        let stamped = stamp.map(|stamp| self.ledger.run().versioned(stamp));
        if let Some((number, _)) = stamped.filter(|(number, version)| self.was_sent(*number, *version)) {
            return self.tally.duplicated.note(number);
        }
        self.tally.foreign += 1;
        findings::add_runs(&mut self.tally.other_runs, &BTreeMap::from([(run, 1)]));
    }

    fn see_foreign(&mut self, stamp: Option<i64>) {
        match stamp.map(|stamp| self.ledger.run().versioned(stamp)) {
            Some((number, version)) if self.was_sent(number, version) => self.tally.duplicated.note(number),
            Some((number, 0)) if self.ledger.is_responsible_for(number) => self.tally.phantom.note(number),
            Some((_, 0)) => {}
            _ if self.other_writers == OtherWriters::Expected => self.tally.foreign += 1,
            _ if self.ledger.is_responsible_for_unassigned() => self.tally.phantom.count += 1,
            _ => {}
        }
    }

    /// Whether a document was sent in this version. Every stamp decodes to some version of some number, so an
    /// unsent version reveals the stamp of another run.
    fn was_sent(&self, number: u64, version: u32) -> bool {
        self.ledger.allocation().locate(number).is_some_and(|slot| {
            self.ledger.state_at(slot) != State::NotSent && version <= self.versions.at(slot).highest()
        })
    }
}
