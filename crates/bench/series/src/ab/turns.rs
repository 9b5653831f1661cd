//! Orders the runs (A B, B A, A B, …) and finds those still to make.

use plimsoll_measure::run::Run;

use crate::matrix::runs::Found;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What B is compared with.
    A,
    /// What is judged.
    B,
}

impl Which {
    /// `A` or `B`.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

/// A run that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its number, from 1, in the order in which runs are made.
    pub number: u32,
    /// Its pair, from 1.
    pub pair: u32,
    /// Of which side.
    pub which: Which,
    /// Its directory, below that of the comparison.
    pub directory: String,
}

/// The runs of `pairs` pairs. Which side comes first alternates, so that neither always follows the other.
pub fn turns(pairs: u32) -> Vec<[Turn; 2]> {
    let pair = |pair: u32| {
        let order = if pair % 2 == 1 { [Which::A, Which::B] } else { [Which::B, Which::A] };
        let turn = |place: u32, which: Which| Turn {
            number: 2 * (pair - 1) + place,
            pair,
            which,
            directory: format!("{pair:03}-{}", which.letter().to_lowercase()),
        };
        [turn(1, order[0]), turn(2, order[1])]
    };
    (1..=pairs).map(pair).collect()
}

/// Whether a run was made to its end.
pub fn is_whole(found: &Found, phases: usize) -> bool {
    let whole = |run: &Run| !run.interrupted && run.aborted.is_none() && run.phases.len() >= phases;
    matches!(found, Found::Summary(run) if whole(run))
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::run::PhaseFacts;

    use super::*;

    #[test]
    fn runs_are_made_in_turns_and_each_side_begins_every_other_pair() {
        let told: Vec<_> = turns(3).concat().into_iter().map(|it| (it.number, it.directory)).collect();
        let expected = ["001-a", "001-b", "002-b", "002-a", "003-a", "003-b"];
        assert_eq!(told, (1..).zip(expected.map(str::to_owned)).collect::<Vec<_>>());
    }

    #[test]
    fn a_run_that_was_cut_is_not_whole() {
        let phases = vec![PhaseFacts::default()];
        let run = |interrupted| {
            Found::Summary(Box::new(Run { interrupted, phases: phases.clone(), ..Run::default() }))
        };
        assert!(is_whole(&run(false), 1));
        assert!(!is_whole(&run(true), 1) && !is_whole(&run(false), 2));
        assert!(!is_whole(&Found::Unfinished, 0) && !is_whole(&Found::Nothing, 0));
    }
}
