//! Tracks the change of one document from its first note to its outcome.

use plimsoll_ledger::State as LedgerState;
use plimsoll_measure::outcome::{Doubt, Outcome};

use super::OperationBuilder;
use crate::worker_ledger::PendingChange;

/// A change noted as sent.
///
/// Attempts to increment or update add up, so each has its own note: an attempt without an answer keeps its note, and a
/// further attempt gets a new note. All attempts of any other change write the same value.
///
/// An attempt without an answer leaves its document in doubt: even after the answer to a retry, the server
/// may still execute the first attempt. Only an acknowledgement ends the doubt, because both attempts write
/// the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingWrite {
    number: u64,
    change: PendingChange,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not sent, or refused: it may be sent again or withdrawn.
    Open,
    /// Sent without an answer.
    Doubtful,
}

impl PendingWrite {
    /// A change of the document `number` before its first attempt.
    pub const fn of(number: u64, change: PendingChange) -> Self {
        Self { number, change, state: State::Open }
    }

    /// The document's number, as a range.
    pub const fn numbers(&self) -> std::ops::Range<u64> {
        self.number..self.number + 1
    }
}

impl OperationBuilder {
    /// Records the outcome of an attempt; `matched`: whether the server found the document.
    pub fn conclude(&self, pending: &mut Option<PendingWrite>, outcome: Outcome, matched: bool) {
        let Some(open) = pending else { return };
        match (outcome, open.state) {
            (Outcome::Acknowledged, _) if matched => {
                self.ledger().acknowledge(open.number, open.change);
                *pending = None;
            }
            (Outcome::Acknowledged, State::Open) => {
                self.ledger().withdraw(open.number, open.change);
                *pending = None;
            }
            (Outcome::Acknowledged, State::Doubtful) => *pending = None,
            (Outcome::Unknown(_), _) if open.change.adds_up() => {
                if !self.ledger().send_again(open.number, open.change) {
                    *pending = None;
                }
            }
            (Outcome::Unknown(_), _) => open.state = State::Doubtful,
            // A retry is possible: the lane's next operation withdraws the change.
            (Outcome::Rejected(_), _) => {}
        }
    }

    /// Records the outcome of a change whose transaction ended in `state`; `matched`: whether the server
    /// found the document.
    pub fn conclude_with(&self, pending: &mut Option<PendingWrite>, state: LedgerState, matched: bool) {
        match state {
            LedgerState::Acknowledged => self.conclude(pending, Outcome::Acknowledged, matched),
            LedgerState::Unknown => self.conclude(pending, Outcome::Unknown(Doubt::Interrupted), matched),
            LedgerState::Rejected | LedgerState::NotSent => self.release(pending),
        }
    }

    /// Withdraws an open change: no retry follows.
    pub fn release(&self, pending: &mut Option<PendingWrite>) {
        if let Some(PendingWrite { number, change, state: State::Open }) = pending.take() {
            self.ledger().withdraw(number, change);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::outcome::Rejection;

    use super::*;
    use crate::keys::Keys;
    use crate::setup::Purpose;
    use crate::testing::{builder, pending_replacement};

    const LOST: Outcome = Outcome::Unknown(Doubt::ConnectionLost);
    const REFUSED: Outcome = Outcome::Rejected(Rejection::NotPrimary);

    /// Checks the document's acknowledged and sent versions after these attempts and the lane's next operation.
    fn check(attempts: &[(Outcome, bool)], expected: (u32, u32)) {
        let builder = builder(1);
        let (number, mut pending) = pending_replacement(&builder);
        attempts.iter().for_each(|(outcome, matched)| builder.conclude(&mut pending, *outcome, *matched));
        builder.release(&mut pending);
        let known = builder.ledger().version(number);
        assert_eq!((known.acknowledged(), known.sent()), expected, "{attempts:?}");
    }

    #[test]
    fn an_acknowledged_change_exists_and_a_refused_change_was_never_sent() {
        check(&[], (0, 0));
        check(&[(Outcome::Acknowledged, true)], (1, 1));
        check(&[(Outcome::Acknowledged, false)], (0, 0));
        check(&[(REFUSED, false)], (0, 0));
        check(&[(REFUSED, false), (Outcome::Acknowledged, true)], (1, 1));
    }

    /// Checks the acknowledged and the sent increments after these attempts and the lane's next operation.
    fn check_increment(attempts: &[(Outcome, bool)], expected: (u32, u32)) {
        let builder = builder(1);
        let picked = builder.ledger().pick(&Keys::Uniform, Purpose::Increment, |_| 0).unwrap();
        let mut pending = picked.change.map(|change| PendingWrite::of(picked.number, change));
        attempts.iter().for_each(|(outcome, matched)| builder.conclude(&mut pending, *outcome, *matched));
        builder.release(&mut pending);
        let known = builder.ledger().version(picked.number);
        assert_eq!((known.acknowledged(), known.sent()), expected, "{attempts:?}");
    }

    #[test]
    fn each_attempt_to_increment_counts() {
        check_increment(&[], (0, 0));
        check_increment(&[(Outcome::Acknowledged, true)], (1, 1));
        check_increment(&[(Outcome::Acknowledged, false)], (0, 0));
        check_increment(&[(REFUSED, false), (Outcome::Acknowledged, true)], (1, 1));
        check_increment(&[(LOST, false)], (0, 1));
        check_increment(&[(LOST, false), (Outcome::Acknowledged, true)], (1, 2));
        check_increment(&[(LOST, false), (LOST, false), (REFUSED, false)], (0, 2));
    }

    #[test]
    fn only_an_acknowledgement_ends_the_doubt() {
        check(&[(LOST, false)], (0, 1));
        check(&[(LOST, false), (Outcome::Acknowledged, true)], (1, 1));
        check(&[(LOST, false), (Outcome::Acknowledged, false)], (0, 1));
        check(&[(LOST, false), (REFUSED, false)], (0, 1));
        check(&[(REFUSED, false), (LOST, false)], (0, 1));
    }
}
