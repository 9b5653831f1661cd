//! Checks the arithmetic with known numbers; a test runs these before it measures.

use std::collections::BTreeSet;

use plimsoll_measure::clock::{Instant, SECOND_NS};

use crate::Failure;
use crate::figures::Figures;
use crate::row::{Bound, Goal, Measured, Of, Turn, taking};
use crate::steady::Memory;
use crate::watch::{Sample, turn};

/// Runs all checks.
pub(crate) fn run() -> Result<(), Failure> {
    every_order_of_three_subjects_comes_in_six_rounds()?;
    a_goal_is_compared_with_its_own_subject_in_each_round()?;
    the_later_half_reveals_a_subject_that_was_not_warm()?;
    memory_that_grows_is_not_flat_however_it_grows()
}

fn check(holds: bool, words: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(format!("the benchmark's arithmetic is wrong: {words}").into()) }
}

fn every_order_of_three_subjects_comes_in_six_rounds() -> Result<(), Failure> {
    let order = |round| [0, 1, 2].map(|place| taking(round, place, 3));
    let orders: BTreeSet<[usize; 3]> = (0..6).map(order).collect();
    let whole = orders.iter().all(|order| BTreeSet::from(*order).len() == 3);
    check(orders.len() == 6 && whole, "six rounds have the six orders of three subjects")
}

fn a_goal_is_compared_with_its_own_subject_in_each_round() -> Result<(), Failure> {
    let turns = |rates: [u64; 3]| {
        let turn = |events| Turn { events, wall_ns: SECOND_NS, cpu_ns: SECOND_NS, ..Turn::default() };
        rates.map(turn).to_vec()
    };
    // The third round was slow for all. The ratio of the medians would be 2.5; round by round it is 3.25.
    let subjects = [("slow", [10, 10, 2]), ("fast", [20, 20, 4]), ("ours", [50, 70, 13])];
    let goal = |peer| Goal { subject: 2, peer, words: "", of: Of::Rate, bound: Bound::Least(3.0) };
    let measured = Measured {
        title: String::new(),
        setup: String::new(),
        subjects: subjects.map(|(name, rates)| (name.to_owned(), turns(rates))).to_vec(),
        remarks: vec![None; 3],
        goals: vec![goal(0), goal(1)],
        published: Vec::new(),
    };
    let goals = Figures::of(&measured).goals;
    check(
        goals[0].met && goals[0].rounds_held == 3,
        "5, 7 and 6.5 times the slow subject reach a goal of 3 times",
    )?;
    check(
        goals[1].met && goals[1].rounds_held == 2,
        "2.5, 3.5 and 3.25 times the fast subject reach the goal in two rounds",
    )
}

fn the_later_half_reveals_a_subject_that_was_not_warm() -> Result<(), Failure> {
    let at =
        |s: u64, events| (Instant::from_ns(s * SECOND_NS), Sample { has_begun: true, events, cpu_ns: s });
    let cold = turn(at(0, 100), Some(at(4, 200)), at(6, 300));
    check(
        cold.events == 200 && cold.later_half == Some(2.0),
        "the later half takes half the time, so its rate is twice as high",
    )?;
    check(
        turn(at(0, 100), None, at(6, 300)).later_half.is_none(),
        "without a sample in the middle there is no later half",
    )
}

fn memory_that_grows_is_not_flat_however_it_grows() -> Result<(), Failure> {
    let of = |bytes: &dyn Fn(u32) -> f64| {
        Memory::over(&(0..600).map(|s| (f64::from(s), bytes(s))).collect::<Vec<_>>())
    };
    let begins = |s: u32| if s < 60 { 10.0 } else { 100.0 };
    check(of(&begins).is_flat(), "the first minute does not count")?;
    check(!of(&|s| 100.0 + f64::from(s) / 50.0).is_flat(), "a slow leak is seen")?;
    check(!of(&|s| if s < 550 { 100.0 } else { 200.0 }).is_flat(), "a jump at the end is seen")?;
    let known = of(&|s| f64::from(s));
    check((known.slope_per_minute - 60.0).abs() < 1e-6, "a byte a second is sixty a minute")?;
    check(
        (known.first, known.last) == (86.5, 572.5),
        "the first and the last tenth are taken from the counted seconds",
    )
}
