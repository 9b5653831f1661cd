//! Implements `plimsoll workflow migrate`: moves open instances to the latest version of their definition.

use anyhow::anyhow;
use futures_util::future::try_join_all;
use plimsoll_report::listing::{Listing, text};
use plimsoll_report::units::counted;
use plimsoll_workflow::definition::Version;
use plimsoll_workflow::instance::{Body, Signal, State};
use plimsoll_workflow::port::{Find, Inserted, Record, Store as _};
use plimsoll_workflow::program::Program;
use plimsoll_workflow::step::missing;
use plimsoll_workflow::worker::ClientError;
use serde_json::json;

use super::store::{Opened, failed, print_json, refused};
use crate::cli::MigrateArgs;
use crate::terminal::{print, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// The number of instances on one page.
const PAGE: usize = 500;
/// Instances in a list at most.
const SHOWN_MAX: usize = 1_000;

/// An instance, and the reason why it cannot move.
struct Candidate {
    instance: String,
    /// The number of the instance's last change. It makes the ID of the signal unique, because an instance
    /// may move to the same version again later.
    change: u64,
    obstacle: Option<String>,
}

/// The instances of earlier versions.
#[derive(Default)]
struct Found {
    movable: u64,
    stuck: u64,
    /// The first instances that cannot move.
    shown: Vec<Candidate>,
}

impl Found {
    /// Counts an instance that cannot move.
    fn add(&mut self, candidate: Candidate) {
        if candidate.obstacle.is_none() {
            return;
        }
        self.stuck += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(candidate);
        }
    }
}

/// Moves all open instances that can move. Ends with code 99 if others cannot.
///
/// # Errors
/// The definition is unknown, or the store fails.
pub(super) fn migrate(args: &MigrateArgs) -> Outcome {
    let opened = Opened::open(&args.store)?;
    let latest = opened.engine.client.registry.latest(&args.definition);
    let unknown = || match opened.engine.client.registry.latest_fault(&args.definition) {
        Some(reason) => anyhow!("the latest definition `{}` is unusable: {reason}", args.definition),
        None => anyhow!("no definition is named `{}`: deploy it first", args.definition),
    };
    let latest = latest.ok_or_else(unknown).deserves(Exit::Usage)?;
    let found = found(&opened, &latest, args.dry_run)?;
    tell(args, &found)?;
    Ok(if found.stuck == 0 || args.dry_run { Exit::Held } else { Exit::Expectation })
}

/// Looks at all open instances of earlier versions, page by page, and moves those that can move unless it is a dry run.
fn found(opened: &Opened, latest: &Program, dry_run: bool) -> Outcome<Found> {
    let mut found = Found::default();
    let name = latest.version.name.clone();
    let mut find = Find { definition: Some(name), limit: PAGE, ..Find::default() };
    loop {
        let page = opened.runtime.block_on(opened.engine.client.store.find(&find)).map_err(failed)?;
        let Some(last) = page.last() else { return Ok(found) };
        find.after = Some(last.id.clone());
        let older = page.iter().filter(|it| !it.status.is_ended() && it.definition != latest.version);
        let candidates: Vec<_> = older.map(|record| candidate(opened, record, latest)).collect();
        let movable: Vec<_> = candidates.iter().filter(|candidate| candidate.obstacle.is_none()).collect();
        found.movable += movable.len() as u64;
        if !dry_run {
            // Concurrent requests share batches.
            let sends = movable.into_iter().map(|candidate| send(opened, candidate, &latest.version));
            opened.runtime.block_on(try_join_all(sends)).map_err(refused)?;
        }
        candidates.into_iter().for_each(|candidate| found.add(candidate));
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

async fn send(opened: &Opened, candidate: &Candidate, to: &Version) -> Result<Inserted, ClientError> {
    let id = format!("migrate:{}:{}", to.hash, candidate.change);
    let body = Body::Migrate { to: to.clone() };
    let signal = Signal::new(candidate.instance.clone(), id, body, opened.engine.now_ms());
    opened.engine.client.publish(signal).await
}

fn tell(args: &MigrateArgs, found: &Found) -> Outcome<()> {
    if args.store.json {
        let stuck: Vec<_> =
            found.shown.iter().map(|it| json!({"instance": it.instance, "obstacle": it.obstacle})).collect();
        let all = json!({
            "dry_run": args.dry_run, "movable": found.movable, "stuck": stuck,
            "stuck_not_listed": found.stuck - found.shown.len() as u64,
        });
        print_json(&all)?;
        return Ok(());
    }
    let verb = if args.dry_run { "can move" } else { "will move" };
    let list = Listing {
        title: format!("Instances that cannot move ({} of {})", found.shown.len(), found.stuck),
        columns: vec!["obstacle", "instance"],
        rows: found
            .shown
            .iter()
            .map(|it| vec![it.obstacle.clone().unwrap_or_default(), it.instance.clone()])
            .collect(),
    };
    let facts = vec![(verb, Some(counted(found.movable, "instance")))];
    print(&text(&args.definition, facts, &[list], screen()));
    Ok(())
}
