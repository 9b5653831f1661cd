//! Orders the runs of a suite and selects the missing ones.

use plimsoll_measure::suite::{Outcome, Planned, Row};

use plimsoll_measure::duration::Span;
use plimsoll_run::console::Console;

use super::resolve::Test;
use crate::rounds::{Order, Turn, turns};

/// The options of a suite.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The time between two checks of the watchdog.
    pub watch: Span,
    /// The number of checks without progress after which a run counts as hung.
    pub hung_after: u32,
    /// Whether failed and hung runs are repeated.
    pub retry: Retry,
    /// The sink of messages.
    pub console: &'static dyn Console,
}

/// Every run of the tests: one of each, then the next of each in the opposite order, and so on.
pub fn schedule(tests: &[Test]) -> Vec<Planned> {
    let counts: Vec<_> = tests.iter().map(|test| (test.name.as_str(), test.repetitions)).collect();
    planned(&counts)
}

fn planned(tests: &[(&str, u32)]) -> Vec<Planned> {
    let repetitions: Vec<_> = tests.iter().map(|(_, repetitions)| *repetitions).collect();
    let planned = |turn: Turn| {
        let (name, repetitions) = tests[turn.variant];
        Planned {
            number: turn.number,
            test: name.to_owned(),
            repetition: turn.repetition,
            directory: turn.directory(name, repetitions),
        }
    };
    turns(&repetitions, Order::Alternating).into_iter().map(planned).collect()
}

/// Whether two lists have the same runs, in any order.
pub fn is_same(one: &[Planned], other: &[Planned]) -> bool {
    let sorted = |runs: &[Planned]| {
        let mut runs: Vec<_> = runs.iter().map(|run| (run.test.clone(), run.repetition)).collect();
        runs.sort();
        runs
    };
    sorted(one) == sorted(other)
}

/// Whether failed and hung runs are repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Failed and hung runs are results.
    #[default]
    No,
    /// Failed and hung runs are repeated.
    Yes,
}

/// Whether a run with the result `known` is still missing.
pub fn is_missing(known: Option<&Row>, retry: Retry) -> bool {
    known.is_none_or(|row| match row.outcome {
        Outcome::Completed => false,
        Outcome::Failed | Outcome::Hung => retry == Retry::Yes,
        Outcome::Interrupted | Outcome::Refused => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_runs_in_another_order_are_the_same_runs() {
        let (one, other) = (planned(&[("a", 2), ("b", 2)]), planned(&[("b", 2), ("a", 2)]));
        assert!(one != other && is_same(&one, &other));
        assert!(!is_same(&one, &planned(&[("a", 2), ("b", 1)])));
        assert!(!is_same(&one, &planned(&[("a", 2), ("c", 2)])));
    }

    #[test]
    fn completed_runs_stay_and_interrupted_ones_are_repeated() {
        let made = |outcome, retry| {
            let row = Row { outcome, ..Row::default() };
            is_missing(Some(&row), retry)
        };
        for (outcome, again, retried) in [
            (Outcome::Completed, false, false),
            (Outcome::Failed, false, true),
            (Outcome::Hung, false, true),
            (Outcome::Interrupted, true, true),
            (Outcome::Refused, true, true),
        ] {
            assert_eq!(
                (made(outcome, Retry::No), made(outcome, Retry::Yes)),
                (again, retried),
                "{outcome:?}"
            );
        }
        assert!(is_missing(None, Retry::No));
    }
}
