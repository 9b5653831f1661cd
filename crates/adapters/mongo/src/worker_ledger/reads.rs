//! Keeps the versions that reads have shown before any acknowledgement. A later read must not return an older version.

use std::collections::HashMap;

use plimsoll_ledger::{Slot, State};

use super::WorkerLedger;
use crate::setup::Validity;
use crate::shared_bounds::Origin;

/// The most versions that a worker remembers until the next connection is opened.
const SHOWN_MAX: usize = 1 << 16;

/// The lower bounds of a read, at the moment when it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Whether the document must exist: it was acknowledged, and no known operation removes it.
    pub promised: bool,
    /// The last acknowledged version, if reads can be checked against it.
    pub least: Option<u32>,
    /// The version that an earlier read has shown, if later reads must show it too.
    pub read: Option<u32>,
    /// The part of `read` that binds every server, whichever one has shown it.
    pub read_of_any: Option<u32>,
    /// The number of connections that the worker had opened when the read was sent.
    pub epoch: u64,
    /// The server that the read is sent to.
    pub origin: Origin,
}

impl Bound {
    /// The bounds of a read whose answer may come from another server than the expected one.
    pub fn without_origin(self) -> Self {
        Self { read: self.read_of_any, origin: Origin::Unknown, ..self }
    }
}

/// The versions that reads of a standalone server have shown. They hold as long as the server runs. A restart
/// breaks the connections, so the versions are forgotten whenever a connection is opened.
#[derive(Debug, Default)]
pub(super) struct Shown {
    epoch: u64,
    versions: HashMap<u64, u32>,
}

impl Shown {
    fn at(&self, number: u64) -> Option<u32> {
        self.versions.get(&number).copied()
    }

    /// Notes a version, unless a connection was opened since the read was sent.
    fn note(&mut self, number: u64, version: u32, epoch: u64) {
        let has_room = self.versions.len() < SHOWN_MAX || self.versions.contains_key(&number);
        if epoch == self.epoch && has_room {
            self.versions.insert(number, version);
        }
    }
}

impl WorkerLedger {
    /// Forgets the versions that hold only as long as the server runs: a connection is opened, perhaps to a restarted server.
    pub fn reconnected(&mut self) {
        self.shown.epoch += 1;
        self.shown.versions.clear();
    }

    /// The lower bounds of a read that is sent now.
    pub fn bound(&self, number: u64, validity: Validity, origin: Origin) -> Bound {
        let Some(slot) = self.allocation.locate(number) else { return Bound::default() };
        Bound { epoch: self.shown.epoch, origin, ..self.bound_at(slot, number, validity, origin) }
    }

    fn bound_at(&self, slot: Slot, number: u64, validity: Validity, origin: Origin) -> Bound {
        let (state, known) = (self.state(slot), self.changes.versions.at(slot));
        if known.may_be_deleted() {
            return Bound::default();
        }
        let promised = state == State::Acknowledged;
        let is_judged = !self.changes.touched.contains(slot);
        let shown = Some(number).filter(|_| validity == Validity::UntilReconnect);
        let own = known.was_read().then(|| known.sent()).or_else(|| self.shown.at(shown?));
        let read = |origin| own.max(self.shown_to_any(number, validity, origin)).filter(|_| is_judged);
        Bound {
            promised,
            least: (is_judged && (promised || state == State::Unknown)).then(|| known.acknowledged()),
            read: read(origin),
            read_of_any: read(Origin::Unknown),
            ..Bound::default()
        }
    }

    /// Notes the version that a read has shown, if no write has acknowledged it yet. `epoch` is that of the
    /// read's bound.
    pub fn saw(&mut self, number: u64, version: u32, validity: Validity, epoch: u64) {
        let Some(slot) = self.allocation.locate(number) else { return };
        let known = self.changes.versions.at(slot);
        let in_doubt = known.is_doubtful() || self.state(slot) == State::Unknown;
        if !in_doubt || known.may_be_deleted() || version != known.sent() {
            return;
        }
        match validity {
            Validity::Unproven => {}
            Validity::UntilReconnect => self.shown.note(number, version, epoch),
            Validity::Permanent | Validity::Ordered => {
                if self.changes.versions.read(slot) {
                    self.note(number);
                }
            }
        }
    }
}
