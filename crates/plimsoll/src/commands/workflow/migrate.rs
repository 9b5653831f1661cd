//! Implements `plimsoll workflow migrate`: moves open instances to the latest version of their definition.

use anyhow::anyhow;
use plimsoll_report::listing::{Listing, text};
use plimsoll_report::units::counted;
use plimsoll_workflow::definition::Version;
use plimsoll_workflow::instance::{Body, Signal, State};
use plimsoll_workflow::port::{Find, Record, Store as _};
use plimsoll_workflow::program::Program;
use plimsoll_workflow::step::missing;
use serde_json::json;

use super::store::{Opened, failed, print_json, refused};
use crate::cli::MigrateArgs;
use crate::terminal::{print, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// Instances of one page.
const PAGE: usize = 500;

/// An instance, and the reason why it cannot move.
struct Candidate {
    instance: String,
    /// The number of its last change: an instance may move to the same version again later.
    change: u64,
    obstacle: Option<String>,
}

/// Moves all open instances that can move.
///
/// # Errors
/// The definition is unknown, or the store fails.
pub(super) fn migrate(args: &MigrateArgs) -> Outcome {
    let opened = Opened::open(&args.store)?;
    let latest = opened.engine.client.registry.latest(&args.definition);
    let unknown = || match opened.engine.client.registry.is_unreadable(&args.definition) {
        true => {
            anyhow!("this version of the program cannot read the latest `{}`: upgrade it", args.definition)
        }
        false => anyhow!("no definition is named `{}`: deploy it first", args.definition),
    };
    let latest = latest.ok_or_else(unknown).deserves(Exit::Usage)?;
    let candidates = candidates(&opened, &latest)?;
    if !args.dry_run {
        let movable = candidates.iter().filter(|candidate| candidate.obstacle.is_none());
        movable.into_iter().try_for_each(|candidate| send(&opened, candidate, &latest.version))?;
    }
    tell(args, &candidates)
}

fn candidates(opened: &Opened, latest: &Program) -> Outcome<Vec<Candidate>> {
    let mut found = Vec::new();
    let name = latest.version.name.clone();
    let mut find = Find { definition: Some(name), limit: PAGE, ..Find::default() };
    loop {
        let page = opened.runtime.block_on(opened.engine.client.store.find(&find)).map_err(failed)?;
        find.after = page.last().map(|record| record.id.clone());
        let older = page.iter().filter(|it| !it.status.is_ended() && it.definition != latest.version);
        found.extend(older.map(|record| candidate(opened, record, latest)));
        if page.len() < PAGE {
            return Ok(found);
        }
    }
}

fn candidate(opened: &Opened, record: &Record, latest: &Program) -> Candidate {
    let obstacle =
        match (opened.engine.client.registry.program(&record.definition.hash), State::decode(&record.body)) {
            (Some(from), Ok(state)) => {
                let missing = missing(&from, latest, &state);
                (!missing.is_empty()).then(|| format!("the latest version lacks {}", missing.join(", ")))
            }
            (None, _) => Some("its version is unknown".into()),
            (_, Err(error)) => Some(error.to_string()),
        };
    Candidate { instance: record.id.clone(), change: record.version, obstacle }
}

fn send(opened: &Opened, candidate: &Candidate, to: &Version) -> Outcome<()> {
    let id = format!("migrate:{}:{}", to.hash, candidate.change);
    let body = Body::Migrate { to: to.clone() };
    let signal = Signal::new(candidate.instance.clone(), id, body, opened.engine.now_ms());
    opened.runtime.block_on(opened.engine.client.publish(signal)).map(drop).map_err(refused)
}

fn tell(args: &MigrateArgs, candidates: &[Candidate]) -> Outcome {
    let stuck: Vec<_> = candidates.iter().filter(|it| it.obstacle.is_some()).collect();
    let movable = candidates.len() - stuck.len();
    if args.store.json {
        let stuck: Vec<_> =
            stuck.iter().map(|it| json!({"instance": it.instance, "obstacle": it.obstacle})).collect();
        print_json(&json!({"dry_run": args.dry_run, "movable": movable, "stuck": stuck}))?;
        return Ok(Exit::Held);
    }
    let verb = if args.dry_run { "can move" } else { "will move" };
    let list = Listing {
        title: "Instances that cannot move".into(),
        columns: vec!["obstacle", "instance"],
        rows: stuck
            .iter()
            .map(|it| vec![it.obstacle.clone().unwrap_or_default(), it.instance.clone()])
            .collect(),
    };
    let facts = vec![(verb, Some(counted(movable as u64, "instance")))];
    print(&text(&args.definition, facts, &[list], screen()));
    Ok(Exit::Held)
}
