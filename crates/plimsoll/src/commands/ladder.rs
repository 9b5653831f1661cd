//! Implements `plimsoll ladder`: measures throughput with more and more writers and fits its scalability law.

use anyhow::ensure;
use plimsoll_load::arrivals::CONNECTIONS_MAX;
use plimsoll_load::engine::Second;
use plimsoll_load::ladder::{Unit, ladder, rung};
use plimsoll_load::line::SETTLE_S;
use plimsoll_load::phase::Phase;
use plimsoll_load::stop::Stop;
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;
use plimsoll_measure::event::{Event, Sends};
use plimsoll_measure::ladder::Rung;

use super::closing;
use crate::cli::LadderArgs;
use crate::registry::Registry;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::lifecycle;
use plimsoll_run::session::Session;
use plimsoll_scenario::plan::{Searched, closed};

/// The largest number of rungs.
const RUNGS_MAX: usize = 64;

/// Measures all rungs and audits all writes.
///
/// # Errors
/// When an option is invalid, or a rung cannot be measured.
pub fn climb(args: &LadderArgs, registry: &Registry) -> Outcome<Exit> {
    check(&args.writers, args.step).deserves(Exit::Usage)?;
    let mut session = lifecycle::open(&args.scenario, &args.load.options(registry.systems))?;
    let searched = session.plan.searched().deserves(Exit::Usage)?;
    searched.note().into_iter().for_each(|note| session.note(note));
    lifecycle::prepare(&mut session)?;
    let mut rungs = Vec::new();
    for writers in &args.writers {
        if session.is_over() {
            break;
        }
        rungs.push(step(&mut session, &searched, *writers, args.step)?);
    }
    session.ladder = Some(ladder(rungs, unit(&session)));
    closing::close(session, &args.load, "ladder", None)
}

fn check(writers: &[u32], step_s: u64) -> anyhow::Result<()> {
    ensure!(
        !writers.is_empty() && writers.len() <= RUNGS_MAX,
        "--writers: give from 1 to {RUNGS_MAX} numbers, such as 1,2,4,8"
    );
    ensure!(
        writers.iter().all(|count| (1..=CONNECTIONS_MAX).contains(count)),
        "--writers: give numbers between 1 and {CONNECTIONS_MAX}"
    );
    ensure!((2..=3600).contains(&step_s), "--step: give from 2 to 3600 seconds");
    Ok(())
}

/// The unit of the rungs.
fn unit(session: &Session) -> Unit {
    match session.sends() {
        _ if session.plan.documents_per_operation() > 1.0 => Unit::Documents,
        Sends::Operations => Unit::Operations,
        Sends::Requests => Unit::Requests,
    }
}

/// Runs one closed load; its first second lets it settle.
fn step(session: &mut Session, searched: &Searched, writers: u32, step_s: u64) -> Outcome<Rung> {
    let name = if writers == 1 { "1 writer".to_owned() } else { format!("{writers} writers") };
    let phase = Phase {
        name,
        key: None,
        loads: searched.loads(closed(&searched.load, writers)),
        stop: Stop { duration: Some(Span::from_secs(SETTLE_S + step_s)), ..Stop::default() },
        drain: Span::from_secs(0),
        unreachable_for: session.loaded.scenario.unreachable_for,
        seed: session.loaded.scenario.seed,
        faults: Vec::new(),
        retry: session.loaded.scenario.retry,
        limits: Vec::new(),
    };
    let at_ns = session.elapsed_ns();
    session.emit(&Event::Phase {
        at_ns,
        name: phase.name.clone(),
        duration_s: phase.stop.duration.map(Span::as_secs),
        documents: None,
    });
    let mut seconds: Vec<Second> = Vec::new();
    session.run(&phase, |second| {
        if second.from_ns >= SETTLE_S * SECOND_NS && second.to_ns <= (SETTLE_S + step_s) * SECOND_NS {
            seconds.push(second.only(0, &searched.load));
        }
    })?;
    Ok(rung(writers, &seconds, unit(session)))
}
