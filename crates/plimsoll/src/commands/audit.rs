//! `plimsoll audit`: reads back what a run wrote, later.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use plimsoll_ledger::{Neighbours, Run as RunId, Touched, recover};
use plimsoll_measure::environment::ServerKind;
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::run::Run;
use plimsoll_mongo::collection::Before;
use plimsoll_mongo::setup::{Context as SetupContext, Setup};

use super::load::runtime;
use crate::audit::{Subject, audit as read_back};
use crate::cli::AuditArgs;
use crate::exit::{Deserves, Exit, Outcome};
use crate::place::{Choice, Place, profile};
use crate::plan::Plan;
use crate::run_dir;
use crate::scenario;
use crate::terminal::print;

/// Reads everything back and says what is there.
///
/// # Errors
/// When the run, its ledger or its server is not there.
pub fn audit(args: &AuditArgs) -> Outcome<Exit> {
    let path = run_dir::locate(args.run.as_deref()).deserves(Exit::Usage)?;
    let recovered = recover(&run_dir::ledger(&path)).context("read the ledger").deserves(Exit::Usage)?;
    let name = run_dir::scenario(&path).display().to_string();
    let loaded = scenario::load(&name, &[], None)?;
    let plan = Plan::build(&loaded)?;
    let context =
        SetupContext { seed: loaded.scenario.seed, run: recovered.ledger.run(), base: &loaded.base };
    let setup = Setup::build(&loaded.scenario.section(), &plan.operations, context).deserves(Exit::Usage)?;
    let runtime = runtime()?;
    let place = place(args, &path, &runtime)?;
    let touching = plan.operations.iter().any(|(_, operation)| operation.touches());
    let touched = if touching { Touched::All } else { Touched::None };
    let subject = Subject {
        setup: &setup,
        site: &place.site,
        ledger: &recovered.ledger,
        touched: &touched,
        neighbours: Neighbours::Expected,
        before: &Before::default(),
    };
    let integrity = read_back(&subject, &runtime, &mut |_| ());
    tell(&integrity, recovered.ledger.run(), args)?;
    Ok(if integrity.holds() { Exit::Held } else { Exit::Integrity })
}

/// Where the documents are: where the user says, in the storage that was kept, or where they were written.
fn place(args: &AuditArgs, path: &std::path::Path, runtime: &tokio::runtime::Runtime) -> Outcome<Place> {
    let timeout = Duration::from_secs(60);
    if let Some(uri) = &args.server {
        return Place::open(&Choice::Uri(uri.clone()), timeout, true, runtime);
    }
    let run = run_dir::read_run(path).ok();
    let storage = run_dir::storage(path);
    if storage.is_dir() {
        let profile = run.and_then(|run| run.server.profile).unwrap_or_else(|| "journaled".into());
        return Place::reopen(&storage, self::profile(&profile)?, timeout);
    }
    let uri = written_to(run).deserves(Exit::Server)?;
    Place::open(&Choice::Uri(uri), timeout, true, runtime)
}

fn written_to(run: Option<Run>) -> anyhow::Result<String> {
    let run =
        run.ok_or_else(|| anyhow!("the run did not end, so its server is not known: name it with --server"))?;
    if run.server.kind != ServerKind::Address {
        bail!(
            "the server ended with the run and its storage was not kept: run the scenario again with --keep"
        );
    }
    let address = run.server.addresses.first().context("the run names no server: name it with --server")?;
    Ok(format!("mongodb://{address}/?directConnection=true"))
}

fn tell(integrity: &Integrity, id: RunId, args: &AuditArgs) -> Outcome<()> {
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(integrity).context("write the findings")?));
        return Ok(());
    }
    let run = Run { id: crate::session::id(id), integrity: Some(integrity.clone()), ..Run::default() };
    for sentence in plimsoll_report::conclusions(&run).iter().take(1) {
        print(&format!("{sentence}\n"));
    }
    let rows = [
        ("acknowledged", integrity.acknowledged),
        ("found", integrity.found),
        ("lost", integrity.lost),
        ("phantom", integrity.phantom),
        ("duplicated", integrity.duplicated),
        ("corrupted", integrity.corrupted),
        ("rejected", integrity.rejected),
        ("unknown, present", integrity.unknown_present),
        ("unknown, absent", integrity.unknown_absent),
        ("not audited", integrity.not_audited),
    ];
    rows.iter().for_each(|(name, count)| print(&format!("  {name:<18}{count:>14}\n")));
    integrity.examples.iter().for_each(|example| print(&format!("  {example}\n")));
    Ok(())
}
