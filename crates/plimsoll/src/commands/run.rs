//! `plimsoll run`: the phases of a scenario, one after the other.

use plimsoll_measure::event::Event;

use super::load;
use crate::cli::RunArgs;
use crate::exit::{Exit, Outcome};

/// Runs a scenario and audits what it wrote.
///
/// # Errors
/// What kept the run from being made.
pub fn run(args: &RunArgs) -> Outcome<Exit> {
    let mut session = load::open(&args.scenario, &args.load)?;
    for phase in session.plan.phases.clone() {
        if session.is_over() {
            break;
        }
        let at_ns = session.elapsed_ns();
        session.emit(&Event::Phase {
            at_ns,
            name: phase.name.clone(),
            duration_s: phase.stop.duration.map(plimsoll_measure::duration::Span::as_secs),
            documents: phase.stop.documents,
        });
        session.run(&phase, |_| ())?;
    }
    load::close(session, &args.load, "run", None)
}
