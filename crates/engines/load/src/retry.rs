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
    /// Once, as MongoDB's specification of retryable writes and reads says: after a lost connection, an
    /// interruption or a step-down, but not after a timeout or an overload.
    Driver,
}

impl Retry {
    /// Whether an operation with this outcome is retried after `retries` retries.
    pub const fn again(self, outcome: Outcome, retries: u64) -> bool {
        let worth = match (self, outcome) {
            (Self::None, _) => false,
            (_, Outcome::Unknown(Doubt::ConnectionLost | Doubt::Interrupted)) => true,
            (_, Outcome::Rejected(Rejection::NotPrimary | Rejection::NotTried)) => true,
            (Self::Once, Outcome::Unknown(Doubt::Timeout) | Outcome::Rejected(Rejection::Overload)) => true,
            _ => false,
        };
        worth && retries == 0
    }
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
            assert_eq!((Retry::Once.again(outcome, 0), Retry::Driver.again(outcome, 0)), (once, driver));
            assert!(!Retry::None.again(outcome, 0) && !Retry::Once.again(outcome, 1));
        }
    }
}
