//! Counts the answers of a service.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answers to one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answers {
    /// The operation.
    pub operation: String,
    /// Answers by status; 0 counts requests without an answer. Retries count as well.
    pub statuses: BTreeMap<u16, u64>,
    /// Every check of the scenario, in its order.
    pub checks: Vec<Check>,
}

/// How often one check of answers held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Its name, such as `status 201`.
    pub name: String,
    /// How often it held.
    pub passed: u64,
    /// How often it did not.
    pub failed: u64,
}

impl Answers {
    /// Adds the answers of another shard to the same operation.
    pub fn merge(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for check in &other.checks {
            match self.checks.iter_mut().find(|own| own.name == check.name) {
                Some(own) => {
                    (own.passed, own.failed) = (own.passed + check.passed, own.failed + check.failed)
                }
                None => self.checks.push(check.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_two_shards_add_up_by_status_and_check() {
        let answers = |statuses: &[(u16, u64)], passed: u64, failed: u64| Answers {
            operation: "post".into(),
            statuses: statuses.iter().copied().collect(),
            checks: vec![Check { name: "status 201".into(), passed, failed }],
        };
        let mut sum = answers(&[(201, 7), (503, 1)], 7, 1);
        sum.merge(&answers(&[(201, 5), (0, 2)], 5, 2));
        assert_eq!(sum, answers(&[(0, 2), (201, 12), (503, 1)], 12, 3));
    }
}
