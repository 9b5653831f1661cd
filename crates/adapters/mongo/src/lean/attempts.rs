//! Tracks the attempts of one operation, and decides which of their answers is reported.

use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_wire::RetryAdvice;

/// Whether an operation is sent for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Further,
}

/// The attempts of the prepared operation so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts {
    count: u32,
    /// The reported answer of the earlier attempts; `None` before the first answer.
    earlier: Option<Reply>,
    /// The retry advice that follows from the last answer.
    pub advice: RetryAdvice,
}

impl Attempts {
    /// Begins the next attempt.
    pub const fn begin(&mut self) -> Attempt {
        self.count += 1;
        self.current()
    }

    /// The current attempt.
    pub const fn current(&self) -> Attempt {
        if self.count <= 1 { Attempt::First } else { Attempt::Further }
    }

    /// The answer to report after `reply`. If this attempt certainly changed nothing, the earlier answer is
    /// reported, because the earlier attempt may have changed something ("Retryable Writes",
    /// `NoWritesPerformed`).
    pub fn report(&mut self, reply: Reply) -> Reply {
        let is_failed = reply.outcome != Outcome::Acknowledged;
        let reported = match self.earlier.filter(|_| is_failed && self.advice.wrote_nothing) {
            Some(earlier) => {
                let (bytes_sent, bytes_received) = (reply.bytes_sent, reply.bytes_received);
                Reply { bytes_sent, bytes_received, ..earlier }
            }
            None => reply,
        };
        self.earlier = Some(reported);
        reported
    }

    /// Whether an answer may mean the end of the primary's term. The connection survives that.
    pub fn may_be_an_election(&self, reply: &Reply) -> bool {
        let is_retryable =
            self.advice.is_retryable && reply.outcome != Outcome::Rejected(Rejection::Overload);
        is_retryable || reply.outcome == Outcome::Unknown(Doubt::Interrupted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: Outcome = Outcome::Unknown(Doubt::ConnectionLost);
    const REFUSED: Outcome = Outcome::Rejected(Rejection::NotPrimary);

    /// The outcome that is reported after two attempts.
    fn reported(first: Outcome, second: Outcome, wrote_nothing: bool) -> Outcome {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.begin(), Attempt::First);
        attempts.advice = RetryAdvice { is_retryable: true, wrote_nothing };
        assert_eq!(attempts.report(Reply::failed(first, 1)).outcome, first, "nothing is earlier");
        assert_eq!(attempts.begin(), Attempt::Further);
        attempts.report(Reply { bytes_sent: 7, ..answer(second) }).outcome
    }

    fn answer(outcome: Outcome) -> Reply {
        if outcome == Outcome::Acknowledged { Reply::acknowledged(1) } else { Reply::failed(outcome, 1) }
    }

    #[test]
    fn an_attempt_that_wrote_nothing_leaves_the_earlier_error_unless_it_succeeds() {
        assert_eq!(reported(LOST, REFUSED, true), LOST);
        assert_eq!(reported(LOST, REFUSED, false), REFUSED);
        assert_eq!(reported(LOST, Outcome::Acknowledged, true), Outcome::Acknowledged);
    }
}
