//! Plans the runs of a matrix and selects the missing ones.

use plimsoll_load::phase::Phase;
use plimsoll_measure::matrix::CellRun;
use plimsoll_measure::run::{PhaseFacts, Run};
use plimsoll_scenario::Plan;

use super::cells::Cell;
use crate::directory::Found;
use crate::isolation::Exclusive;
use crate::rounds::{Order, Turn, turns};

/// The maximum length of the values in a directory's name, in characters.
const SLUG_MAX: usize = 60;
/// The value of `ended_by` in run.json if the duration ended a phase.
const ENDED_BY_TIME: &str = "duration";

/// Every run: all cells once, then all again. `exclusive` holds the exclusive data of each cell's runs.
pub fn schedule(cells: &[Cell], repetitions: u32, exclusive: &[Exclusive]) -> Vec<CellRun> {
    let planned = |turn: Turn| CellRun {
        number: turn.number,
        cell: cells[turn.variant].number,
        repetition: turn.repetition,
        directory: turn.directory(&slug(&cells[turn.variant].label), repetitions),
        collection: exclusive[turn.variant].name(turn.number).unwrap_or_default(),
        ..CellRun::default()
    };
    turns(&vec![repetitions; cells.len()], Order::Same).into_iter().map(planned).collect()
}

/// The index of a run's cell.
pub const fn cell(run: &CellRun) -> usize {
    run.cell as usize - 1
}

fn slug(label: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "._".contains(letter) { letter } else { '-' };
    label.replace(", ", "-").chars().map(plain).take(SLUG_MAX).collect()
}

/// Whether a run of `plan` was completed.
pub fn is_complete(found: &Found, plan: &Plan) -> bool {
    matches!(found, Found::Summary(run) if !run.interrupted && !is_cut(run, plan))
}

/// Whether a run lacks a phase, or the time bound of the matrix ended a phase without a duration.
pub fn is_cut(run: &Run, plan: &Plan) -> bool {
    let is_cut = |phase: &Phase| phase.stop.duration.is_none();
    run.phases.len() < plan.phases.len() || is_ended_by_time(run, plan, is_cut)
}

/// Notes on a run: its duration ended a phase before all documents were sent.
pub fn notes(run: &Run, plan: &Plan) -> Vec<String> {
    let has_both = |phase: &Phase| phase.stop.duration.is_some() && phase.stop.documents.is_some();
    let is_early = is_ended_by_time(run, plan, has_both);
    is_early.then(|| "its duration ended before all documents were sent".to_owned()).into_iter().collect()
}

fn is_ended_by_time(run: &Run, plan: &Plan, is_expected: impl Fn(&Phase) -> bool) -> bool {
    let mut phases = run.phases.iter().zip(&plan.phases);
    phases.any(|(facts, phase): (&PhaseFacts, &Phase)| facts.ended_by == ENDED_BY_TIME && is_expected(phase))
}

#[cfg(test)]
mod tests {
    use plimsoll_run::server_provisioning::Choice;
    use plimsoll_systems::DatabaseAt;

    use super::super::cells::tests::{SCENARIO, expanded};
    use super::*;

    fn exclusive(cells: &[Cell]) -> Vec<Exclusive> {
        let at = DatabaseAt(Choice::Any);
        cells.iter().map(|cell| Exclusive::on_shared_server(&at, &cell.loaded)).collect()
    }

    #[test]
    fn a_service_on_a_running_server_has_a_database_for_each_run() {
        let cells = expanded(SCENARIO, &["size=10K"]).unwrap().cells;
        let own = |base: &str| Exclusive::NumberedDatabase { path: String::new(), base: base.into() };
        assert_eq!(schedule(&cells, 1, &[own("x"), own("feeds")])[1].collection, "feeds_2");
        let none = [Exclusive::Nothing, Exclusive::Nothing];
        assert_eq!(
            schedule(&cells, 1, &none)[1].collection,
            "",
            "a run with its own server needs no database name"
        );
    }

    #[test]
    fn repetitions_are_interleaved_and_each_run_has_its_own_directory_and_collection() {
        let cells = expanded(SCENARIO, &["size=10K"]).unwrap().cells;
        let runs = schedule(&cells, 2, &exclusive(&cells));
        let listed: Vec<_> =
            runs.iter().map(|run| (run.directory.as_str(), run.collection.as_str())).collect();
        assert_eq!(
            listed,
            [
                ("001-one-r1", "plimsoll.writes_1"),
                ("002-many-r1", "plimsoll.writes_2"),
                ("003-one-r2", "plimsoll.writes_3"),
                ("004-many-r2", "plimsoll.writes_4"),
            ]
        );
        assert_eq!(slug("w 1/j, 10K"), "w-1-j-10K");
    }

    #[test]
    fn a_completed_run_is_not_repeated() {
        let plan = &expanded(SCENARIO, &[]).unwrap().cells[0].plan;
        let ended = |by: &str| {
            let phase = PhaseFacts { ended_by: by.to_owned(), ..PhaseFacts::default() };
            Run { phases: vec![phase], ..Run::default() }
        };
        let summary = |run: Run| Found::Summary(Box::new(run));
        assert!(!is_complete(&Found::Nothing, plan));
        assert!(!is_complete(&Found::Unfinished, plan));
        assert!(is_complete(&summary(ended("documents")), plan));
        assert!(!is_complete(&summary(Run { interrupted: true, ..ended("documents") }), plan));
        assert!(
            !is_complete(&summary(ended("duration")), plan),
            "the time bound of the matrix ended the run"
        );
        assert!(!is_complete(&summary(Run::default()), plan), "the run was stopped before its first phase");
    }

    #[test]
    fn a_run_ended_by_its_duration_is_complete_and_has_a_note() {
        let plan = &expanded(SCENARIO, &["size=10M"]).unwrap().cells[0].plan;
        let phase = PhaseFacts { ended_by: "duration".into(), ..PhaseFacts::default() };
        let run = Run { phases: vec![phase], ..Run::default() };
        assert!(is_complete(&Found::Summary(Box::new(run.clone())), plan));
        assert!(notes(&run, plan)[0].contains("duration ended"));
        assert!(notes(&Run::default(), plan).is_empty());
    }
}
