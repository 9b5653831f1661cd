//! Decides whether to retry a failed operation. Every retry is counted, and its time belongs to the
//! operation: response and service end with the last answer.

use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The policy of retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Never: a failed operation stays failed, and an unknown one unknown.
    #[default]
    None,
    /// Once, if another attempt could succeed: after a lost connection, a timeout, an interruption, a
    /// step-down or an overload.
    Once,
    /// Once, as MongoDB's specifications of retryable writes and reads say: after a lost connection, and after the errors that the
    /// server labels (writes) or that the specification lists (reads), such as a step-down; not after a timeout.
    Driver,
}

impl Retry {
    /// Whether an operation with this outcome is retried after `retries` retries. `is_retryable`: whether MongoDB's drivers would send
    /// it again ([`crate::target::Target::is_retryable`]).
    pub const fn again(self, outcome: Outcome, is_retryable: bool, retries: u64) -> bool {
        let worth = match self {
            Self::None => false,
            Self::Once => is_retryable || may_succeed(outcome),
            Self::Driver => is_retryable,
        };
        worth && retries == 0
    }
}

/// Whether MongoDB's drivers send an operation with this outcome again, as far as the outcome tells.
pub const fn is_retryable(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Unknown(Doubt::ConnectionLost | Doubt::Interrupted)
            | Outcome::Rejected(Rejection::NotPrimary | Rejection::NotTried)
    )
}

/// Whether another attempt could succeed.
const fn may_succeed(outcome: Outcome) -> bool {
    is_retryable(outcome)
        || matches!(outcome, Outcome::Unknown(Doubt::Timeout) | Outcome::Rejected(Rejection::Overload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_differ_after_a_timeout_and_agree_on_final_outcomes() {
        let timeout = Outcome::Unknown(Doubt::Timeout);
        let lost = Outcome::Unknown(Doubt::ConnectionLost);
        for (outcome, once, driver) in [
            (timeout, true, false),
            (lost, true, true),
            (Outcome::Rejected(Rejection::Overload), true, false),
            (Outcome::Rejected(Rejection::NotPrimary), true, true),
            (Outcome::Rejected(Rejection::DuplicateKey), false, false),
            (Outcome::Unknown(Doubt::Unacknowledged), false, false),
            (Outcome::Acknowledged, false, false),
        ] {
            let known = is_retryable(outcome);
            let again = |retry: Retry| retry.again(outcome, known, 0);
            assert_eq!((again(Retry::Once), again(Retry::Driver)), (once, driver));
            assert!(!again(Retry::None) && !Retry::Once.again(outcome, known, 1));
        }
    }

    #[test]
    fn the_policy_of_drivers_follows_the_servers_advice_alone() {
        let (stopped, lost) = (Outcome::Rejected(Rejection::Other), Outcome::Unknown(Doubt::ConnectionLost));
        assert!(Retry::Driver.again(stopped, true, 0) && Retry::Once.again(stopped, true, 0));
        assert!(!Retry::Driver.again(lost, false, 0) && Retry::Once.again(lost, false, 0));
    }
}
