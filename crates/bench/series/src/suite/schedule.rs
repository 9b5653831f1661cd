//! Orders the runs of a suite and finds those still to make.

use plimsoll_measure::suite::{Outcome, Planned, Row};

use plimsoll_measure::duration::Span;
use plimsoll_run::console::Console;

use super::resolve::Test;

/// How a suite is made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// From one look of the watchdog to the next.
    pub watch: Span,
    /// After so many looks without progress a run is taken for hung.
    pub hung_after: u32,
    /// Whether what failed or hung is made again.
    pub retry: Retry,
    /// Where messages on the way go.
    pub console: &'static dyn Console,
}

/// Every run: each test once in the order of the file, then each that has another repetition again, from the last one to the
/// first, and so on: no test always finds what the same other one has left on the machine.
pub fn schedule(tests: &[Test]) -> Vec<Planned> {
    let counts: Vec<_> = tests.iter().map(|test| (test.name.as_str(), test.repetitions)).collect();
    rounds(&counts)
}

fn rounds(tests: &[(&str, u32)]) -> Vec<Planned> {
    let most = tests.iter().map(|(_, repetitions)| *repetitions).max().unwrap_or(0);
    let round = |repetition: u32| {
        let again = tests.iter().filter(|(_, repetitions)| repetition <= *repetitions);
        let mut round: Vec<_> = again.map(|(name, of)| (repetition, *name, *of)).collect();
        if repetition.is_multiple_of(2) {
            round.reverse();
        }
        round
    };
    let planned = |(number, (repetition, name, repetitions)): (u32, (u32, &str, u32))| {
        let which = if repetitions > 1 { format!("-r{repetition}") } else { String::new() };
        Planned { number, test: name.to_owned(), repetition, directory: format!("{number:03}-{name}{which}") }
    };
    (1..).zip((1..=most).flat_map(round)).map(planned).collect()
}

/// Whether two lists have the same runs, in whatever order.
pub fn is_same(one: &[Planned], other: &[Planned]) -> bool {
    let sorted = |runs: &[Planned]| {
        let mut runs: Vec<_> = runs.iter().map(|run| (run.test.clone(), run.repetition)).collect();
        runs.sort();
        runs
    };
    sorted(one) == sorted(other)
}

/// Whether runs that came to nothing good are made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// What failed or hung is a result.
    #[default]
    No,
    /// What failed or hung is made again.
    Yes,
}

/// Whether a run of which `known` is known is still to be made.
pub fn is_to_be_made(known: Option<&Row>, retry: Retry) -> bool {
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
    fn repetitions_are_interleaved_the_order_alternates_and_each_run_has_a_place_of_its_own() {
        let runs = rounds(&[("a", 3), ("b", 1), ("c", 2)]);
        let told: Vec<_> = runs.iter().map(|run| (run.number, run.directory.as_str())).collect();
        let expected = ["001-a-r1", "002-b", "003-c-r1", "004-c-r2", "005-a-r2", "006-a-r3"];
        assert_eq!(told, (1..).zip(expected).collect::<Vec<_>>());
        assert!(rounds(&[]).is_empty());
    }

    #[test]
    fn the_same_runs_in_another_order_are_the_same_runs() {
        let (one, other) = (rounds(&[("a", 2), ("b", 2)]), rounds(&[("b", 2), ("a", 2)]));
        assert!(one != other && is_same(&one, &other));
        assert!(!is_same(&one, &rounds(&[("a", 2), ("b", 1)])));
        assert!(!is_same(&one, &rounds(&[("a", 2), ("c", 2)])));
    }

    #[test]
    fn what_was_completed_is_kept_and_what_was_cut_off_is_made_again() {
        let made = |outcome, retry| {
            let row = Row { outcome, ..Row::default() };
            is_to_be_made(Some(&row), retry)
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
        assert!(is_to_be_made(None, Retry::No));
    }
}
