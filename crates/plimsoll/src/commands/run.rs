//! `plimsoll run`: the phases of a scenario, one after the other.

use anyhow::ensure;
use plimsoll_load::phase::Phase;
use plimsoll_measure::event::Event;

use super::{load, matrix};
use crate::cli::RunArgs;
use crate::exit::{Deserves, Exit, Outcome};
use crate::scenario::{self, Loaded};
use crate::session::Session;

/// Runs a scenario and audits what it wrote; of a matrix every cell that was asked for.
///
/// # Errors
/// What kept the run from being made.
pub fn run(args: &RunArgs) -> Outcome<Exit> {
    let loaded =
        scenario::load(&args.scenario, &args.load.overrides, args.load.seed).deserves(Exit::Usage)?;
    if loaded.scenario.matrix.is_some() {
        return matrix::run(&loaded, args);
    }
    check_words(&loaded, args).deserves(Exit::Usage)?;
    let mut session = load::open(&args.scenario, &args.load)?;
    for phase in session.plan.phases.clone() {
        if session.is_over() {
            break;
        }
        one_phase(&mut session, &phase)?;
    }
    load::close(session, &args.load, "run", None)
}

/// Announces a phase and runs it.
///
/// # Errors
/// When it cannot be run at all.
pub fn one_phase(session: &mut Session, phase: &Phase) -> Outcome<()> {
    let at_ns = session.elapsed_ns();
    session.emit(&Event::Phase {
        at_ns,
        name: phase.name.clone(),
        duration_s: phase.stop.duration.map(plimsoll_measure::duration::Span::as_secs),
        documents: phase.stop.documents,
    });
    session.run(phase, |_| ())?;
    Ok(())
}

/// Words that only a matrix has a use for.
fn check_words(loaded: &Loaded, args: &RunArgs) -> anyhow::Result<()> {
    ensure!(
        args.only.is_empty() && !args.list && args.resume.is_none(),
        "--only, --list and --resume are for a scenario with a `matrix`, and {} has none",
        loaded.name
    );
    Ok(())
}
