//! Orders the runs of a matrix and finds those still to make.

use plimsoll_deployment::Namespace;
use plimsoll_measure::run::Run;

use super::cells::Cell;
use crate::isolation::Venue;
use plimsoll_scenario::Plan;
use plimsoll_scenario::Scenario;

/// A directory's name has at most this many characters of a cell's values.
const SLUG_MAX: usize = 60;
/// Why a phase ended, as run.json says it.
const ENDED_BY_TIME: &str = "duration";

/// A run that belongs to the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its number, from 1.
    pub number: u32,
    /// The index of its cell.
    pub cell: usize,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Its directory, below that of the matrix.
    pub directory: String,
    /// Its collection, or the database of its service; empty where it has none of its own.
    pub collection: String,
}

/// What is there of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A directory without a summary: it was cut off.
    Unfinished,
    /// A summary.
    Summary(Box<Run>),
}

/// What is to be done about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Nothing: it was made.
    Keep,
    /// Make it.
    Make,
    /// Put aside what is there, and make it again.
    Again,
}

/// Every run: all cells once, then all again.
pub fn schedule(cells: &[Cell], repetitions: u32, venue: Venue) -> Vec<Planned> {
    let rounds =
        (1..=repetitions).flat_map(|repetition| cells.iter().enumerate().map(move |at| (repetition, at)));
    rounds
        .zip(1..)
        .map(|((repetition, (index, cell)), number)| Planned {
            number,
            cell: index,
            repetition,
            directory: directory(number, &cell.label, repetition, repetitions),
            collection: written_to(&cell.loaded.scenario, number, venue),
        })
        .collect()
}

fn directory(number: u32, label: &str, repetition: u32, repetitions: u32) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "._".contains(letter) { letter } else { '-' };
    let slug: String = label.replace(", ", "-").chars().map(plain).take(SLUG_MAX).collect();
    let round = if repetitions > 1 { format!("-r{repetition}") } else { String::new() };
    format!("{number:03}-{slug}{round}")
}

/// What run `number` has to itself where the server stays: a collection, or the database of its service.
fn written_to(scenario: &Scenario, number: u32, venue: Venue) -> String {
    match (venue, &scenario.service) {
        (Venue::Database, _) => collection(&scenario.collection, number),
        (Venue::Databases, Some(staging)) => format!("{}_{number}", staging.database()),
        _ => String::new(),
    }
}

/// `database.collection_n`; a name without a database is refused elsewhere.
fn collection(base: &str, number: u32) -> String {
    base.parse::<Namespace>().map_or_else(|_| base.to_owned(), |base| format!("{base}_{number}"))
}

/// What is to be done about a run of `plan` of which `found` is there.
pub fn todo(found: &Found, plan: &Plan) -> Todo {
    match found {
        Found::Nothing => Todo::Make,
        Found::Unfinished => Todo::Again,
        Found::Summary(run) if run.interrupted || is_cut(run, plan) => Todo::Again,
        Found::Summary(_) => Todo::Keep,
    }
}

/// Whether a run lacks a phase, or the bound of the matrix ended a load that has no limit of time of its own.
pub fn is_cut(run: &Run, plan: &Plan) -> bool {
    let cut = |(facts, phase): (&plimsoll_measure::run::PhaseFacts, &plimsoll_load::phase::Phase)| {
        phase.stop.duration.is_none() && facts.ended_by == ENDED_BY_TIME
    };
    run.phases.len() < plan.phases.len() || run.phases.iter().zip(&plan.phases).any(cut)
}

/// What should be known of a run beside its verdict: that time ended it before all its documents were sent.
pub fn notes(run: &Run, plan: &Plan) -> Vec<String> {
    let by_time = |(facts, phase): (&plimsoll_measure::run::PhaseFacts, &plimsoll_load::phase::Phase)| {
        let has_both = phase.stop.duration.is_some() && phase.stop.documents.is_some();
        has_both && facts.ended_by == ENDED_BY_TIME
    };
    let ended = run.phases.iter().zip(&plan.phases).any(by_time);
    ended.then(|| "its time was over before all its documents were sent".to_owned()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::run::PhaseFacts;

    use super::super::cells::tests::{SCENARIO, expanded};
    use super::*;

    #[test]
    fn repetitions_are_interleaved_and_each_run_has_a_place_of_its_own() {
        let cells = expanded(SCENARIO, &["size=10K"]).unwrap().cells;
        let runs = schedule(&cells, 2, Venue::Database);
        let told: Vec<_> = runs.iter().map(|run| (run.directory.as_str(), run.collection.as_str())).collect();
        assert_eq!(
            told,
            [
                ("001-one-r1", "plimsoll.writes_1"),
                ("002-many-r1", "plimsoll.writes_2"),
                ("003-one-r2", "plimsoll.writes_3"),
                ("004-many-r2", "plimsoll.writes_4"),
            ]
        );
        assert_eq!(directory(7, "w 1/j, 10K", 1, 1), "007-w-1-j-10K");
    }

    #[test]
    fn a_service_on_a_server_that_stays_has_a_database_for_each_run() {
        let mut cells = expanded(SCENARIO, &["size=10K"]).unwrap().cells;
        let staging = "telemetry: {settings: {database: {name: feeds}}}";
        cells[1].loaded.scenario.service = Some(serde_saphyr::from_str(staging).unwrap());
        assert_eq!(schedule(&cells, 1, Venue::Databases)[1].collection, "feeds_2");
        assert_eq!(schedule(&cells, 1, Venue::Anew)[1].collection, "", "its server is its own");
    }

    #[test]
    fn what_was_made_to_its_end_is_not_made_again() {
        let plan = &expanded(SCENARIO, &[]).unwrap().cells[0].plan;
        let ended = |by: &str| {
            let phase = PhaseFacts { ended_by: by.to_owned(), ..PhaseFacts::default() };
            Run { phases: vec![phase], ..Run::default() }
        };
        let summary = |run: Run| Found::Summary(Box::new(run));
        assert_eq!(todo(&Found::Nothing, plan), Todo::Make);
        assert_eq!(todo(&Found::Unfinished, plan), Todo::Again);
        assert_eq!(todo(&summary(ended("documents")), plan), Todo::Keep);
        assert_eq!(todo(&summary(Run { interrupted: true, ..ended("documents") }), plan), Todo::Again);
        assert_eq!(
            todo(&summary(ended("duration")), plan),
            Todo::Again,
            "the bound of the matrix cut it off"
        );
        assert_eq!(
            todo(&summary(Run::default()), plan),
            Todo::Again,
            "it was stopped before its first phase"
        );
    }

    #[test]
    fn a_run_that_its_own_time_ended_is_made_and_says_so() {
        let plan = &expanded(SCENARIO, &["size=10M"]).unwrap().cells[0].plan;
        let phase = PhaseFacts { ended_by: "duration".into(), ..PhaseFacts::default() };
        let run = Run { phases: vec![phase], ..Run::default() };
        assert_eq!(todo(&Found::Summary(Box::new(run.clone())), plan), Todo::Keep);
        assert!(notes(&run, plan)[0].contains("time was over"));
        assert!(notes(&Run::default(), plan).is_empty());
    }
}
