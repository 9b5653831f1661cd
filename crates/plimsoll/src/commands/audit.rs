//! Implements `plimsoll audit`: reads the documents of a run back again, later.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use plimsoll_deployment::collection::{self, InitialState};
use plimsoll_ledger::{Ledger, OtherWriters, Run as RunId, Touched, recover};
use plimsoll_measure::environment::ServerKind;
use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::run::Run;
use plimsoll_mongo::audit::Listener;
use plimsoll_mongo::setup::{Context as SetupContext, Setup};
use plimsoll_report::text::hanging;
use plimsoll_wire::Connection;

use super::inspect::tell_unused_options;
use crate::cli::AuditArgs;
use crate::terminal::{console, print, screen};
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::lifecycle::runtime;
use plimsoll_run::run_dir;
use plimsoll_run::server_provisioning::{Choice, RunningServer, StartOptions, choice, profile};
use plimsoll_scenario as scenario;
use plimsoll_scenario::Plan;
use plimsoll_systems::audit::{Subject, audit as read_back};

/// Reads all documents back and prints the findings.
///
/// # Errors
/// The run, its ledger or its server is missing.
pub fn audit(args: &AuditArgs) -> Outcome<Exit> {
    let path = run_dir::locate(args.run.as_deref()).deserves(Exit::Usage)?;
    let recovered = recover(&run_dir::ledger(&path)).context("read the ledger").deserves(Exit::Usage)?;
    let name = run_dir::scenario(&path).display().to_string();
    let loaded = scenario::load(&name, &[], None)?;
    let plan = Plan::build(&loaded)?;
    let context =
        SetupContext { seed: loaded.scenario.seed, run: recovered.ledger.run(), base: &loaded.base };
    let setup = Setup::build(&loaded.scenario.section(), &plan.database(), context).deserves(Exit::Usage)?;
    let runtime = runtime()?;
    let place = place(args, &path, &runtime)?;
    if recovered.ledger.counts().acknowledged > 0 {
        check_collection(args, &path, &place, &setup, &runtime)?;
    }
    let touching = plan.database().iter().any(|(_, operation)| operation.touches());
    let touched = if touching { Touched::All } else { Touched::None };
    let before = InitialState {
        documents: documents_before(&path),
        vanishing: runtime.block_on(vanishing(&place, &setup))?,
    };
    let subject = Subject {
        setup: &setup,
        servers: place.all().map(|place| place.deployment.options()).collect(),
        is_direct: place.all().any(|place| place.deployment.is_direct()),
        patience: Duration::ZERO,
        ledger: &recovered.ledger,
        touched: &touched,
        other_writers: OtherWriters::Expected,
        before: &before,
    };
    let mut lost = Lost::default();
    let mut integrity = read_back(&subject, &runtime, &mut lost);
    // The run's URI may have set the write concern, so the recorded value is used. No run keeps its history,
    // so the recorded result of the history's check is used too.
    if let Some(kept) = run_dir::read_run(&path).ok().and_then(|run| run.integrity) {
        count_phantoms_of_the_run(&mut integrity, &kept);
        (integrity.write_concern, integrity.consistency) = (kept.write_concern, kept.consistency);
    }
    if let Some(dir) = &args.receipts {
        write_receipts(dir, &recovered.ledger, &lost.0)?;
    }
    tell(&integrity, recovered.ledger.run(), &path, args)?;
    Ok(exit(&integrity))
}

/// The exit code of an audit. A part that could not be checked leaves the audit open.
fn exit(integrity: &Integrity) -> Exit {
    match (integrity.holds(), integrity.is_whole() && integrity.unchecked_transactions == 0) {
        (false, _) => Exit::Integrity,
        (true, false) => Exit::Server,
        (true, true) => Exit::Held,
    }
}

/// Counts unexpected documents as phantoms, up to the number that the run counted, so that both commands agree. Further
/// unexpected documents belong to other writers.
fn count_phantoms_of_the_run(integrity: &mut Integrity, kept: &Integrity) {
    if !kept.was_alone {
        return;
    }
    let of_runs = integrity.foreign_runs.values().sum();
    let strange = integrity.foreign.saturating_sub(of_runs);
    let stayed = kept.phantom.saturating_sub(integrity.phantom).min(strange);
    integrity.phantom += stayed;
    integrity.foreign -= stayed;
    integrity.was_alone = kept.phantom > 0;
}

/// The number of documents in the collection before the run, from the run's summary. 0 if the summary lacks
/// it.
fn documents_before(path: &Path) -> u64 {
    let integrity = run_dir::read_run(path).ok().and_then(|run| run.integrity);
    let counted = integrity.filter(|integrity| integrity.proof == Proof::Counted);
    counted.map_or(0, |integrity| integrity.foreign.saturating_sub(integrity.found))
}

/// Refuses an address at which no server has the collection: nothing could be audited there. Kept storage
/// belongs to the run, so a collection that is missing there is lost.
fn check_collection(
    args: &AuditArgs,
    path: &Path,
    place: &RunningServer,
    setup: &Setup,
    runtime: &tokio::runtime::Runtime,
) -> Outcome<()> {
    let is_named = is_named(args);
    if !is_named && run_dir::kept_storage(path, 0).is_dir() {
        return Ok(());
    }
    if runtime.block_on(has_collection(place, setup))? {
        return Ok(());
    }
    let addresses: Vec<_> = place.all().map(|place| place.deployment.options().address.to_string()).collect();
    let at = format!("no such collection {} at {}", setup.namespace, addresses.join(", "));
    let error = if is_named {
        anyhow!(
            "{at}: is this the right server? Nothing was audited: name the server of the run with --server"
        )
    } else {
        anyhow!(
            "{at}, where the run wrote it: nothing was audited: name the server with --server if it has another address now"
        )
    };
    Err(Failure { exit: if is_named { Exit::Usage } else { Exit::Server }, error })
}

/// Whether the user named the server.
fn is_named(args: &AuditArgs) -> bool {
    args.server.is_some() || !args.hosts.is_empty()
}

/// Whether one of the servers has the collection.
async fn has_collection(place: &RunningServer, setup: &Setup) -> Outcome<bool> {
    for server in place.all() {
        let mut connection =
            Connection::connect(&server.deployment.options()).await.deserves(Exit::Server)?;
        if collection::exists(&mut connection, &setup.namespace).await.deserves(Exit::Server)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The reason why documents may vanish by design, from the collection's current settings.
async fn vanishing(place: &RunningServer, setup: &Setup) -> Outcome<Option<String>> {
    let mut connection = Connection::connect(&place.deployment.options()).await.deserves(Exit::Server)?;
    collection::vanishing(&mut connection, &setup.namespace).await.deserves(Exit::Server)
}

/// Collects the numbers of all lost documents.
#[derive(Debug, Default)]
struct Lost(Vec<u64>);

impl Listener for Lost {
    fn lost(&mut self, number: u64) {
        self.0.push(number);
    }
}

fn write_receipts(dir: &Path, ledger: &Ledger, lost: &[u64]) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    write_list(&dir.join("acknowledged.txt"), ledger, ledger.acknowledged())?;
    write_list(&dir.join("lost.txt"), ledger, lost.iter().copied())
}

fn write_list(path: &Path, ledger: &Ledger, numbers: impl Iterator<Item = u64>) -> anyhow::Result<()> {
    let here = || format!("write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(here)?);
    for number in numbers {
        writeln!(file, "{}", ledger.run().receipt(number)).with_context(here)?;
    }
    file.flush().with_context(here)
}

/// Finds the documents: on the user's server, in the kept storage, or on the original server.
fn place(args: &AuditArgs, path: &Path, runtime: &tokio::runtime::Runtime) -> Outcome<RunningServer> {
    let timeout = Duration::from_secs(60);
    if is_named(args) {
        args.server.iter().chain(&args.hosts).for_each(|server| tell_unused_options(server));
        let choice = choice(args.server.as_deref(), &args.hosts, 1).deserves(Exit::Usage)?;
        // This console shows only warnings.
        let start = StartOptions { console: console(true), ..StartOptions::quiet(timeout) };
        return RunningServer::open(&choice, start, runtime);
    }
    let run = run_dir::read_run(path).ok();
    let kept: Vec<_> = (0..)
        .map(|index| run_dir::kept_storage(path, index))
        .take_while(|storage| storage.is_dir())
        .collect();
    let profile = run.as_ref().and_then(|run| run.server.profile.clone());
    let profile = self::profile(&profile.unwrap_or_else(|| "journaled".into()))?;
    let kind = run.as_ref().map_or(ServerKind::Embedded, |run| run.server.kind);
    let reopened = kept.iter().map(|storage| {
        RunningServer::reopen(
            storage,
            kind,
            profile,
            StartOptions { console: console(false), ..StartOptions::quiet(timeout) },
        )
    });
    if let Some(place) = RunningServer::join(reopened.collect::<Outcome<_>>()?) {
        return Ok(place);
    }
    RunningServer::open(&written_to(run).deserves(Exit::Server)?, StartOptions::quiet(timeout), runtime)
}

fn written_to(run: Option<Run>) -> anyhow::Result<Choice> {
    let run =
        run.ok_or_else(|| anyhow!("the run did not end, so its server is unknown: name it with --server"))?;
    if run.server.kind != ServerKind::Address {
        bail!(
            "the server ended with the run and its storage was not kept: run the scenario again with --keep"
        );
    }
    if !run.server.open {
        bail!("the server needed a user or TLS, which a run does not record: name it with --server");
    }
    // Several mongos show the same documents; each independent server has a part of them.
    let own = if run.spread.is_empty() { 1 } else { run.server.addresses.len() };
    let hosts: Vec<_> = run.server.addresses.into_iter().take(own).collect();
    if hosts.is_empty() {
        bail!("the run names no server: name it with --server");
    }
    choice(None, &hosts, 1)
}

fn tell(integrity: &Integrity, id: RunId, path: &Path, args: &AuditArgs) -> Outcome<()> {
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(integrity).context("write the findings")?));
        return Ok(());
    }
    let server = run_dir::read_run(path).map(|run| run.server).unwrap_or_default();
    let run = Run {
        id: plimsoll_run::session::id(id),
        server,
        integrity: Some(integrity.clone()),
        ..Run::default()
    };
    let width = screen().width;
    for sentence in plimsoll_report::conclusions(&run).iter().take(1) {
        print(&format!("{}\n", hanging(sentence, "", width)));
    }
    let rows = [
        ("acknowledged", integrity.acknowledged),
        ("found", integrity.found),
        ("lost", integrity.lost),
        ("phantom", integrity.phantom),
        ("duplicated", integrity.duplicated),
        ("corrupted", integrity.corrupted),
        ("read, then gone", integrity.read_then_gone),
        ("half transactions", integrity.half_transactions),
        ("open transactions", integrity.unchecked_transactions),
        ("lost updates", integrity.lost_increments),
        ("extra updates", integrity.extra_increments),
        ("missing from index", integrity.missing_from_index),
        ("member differences", integrity.member_differences),
        ("on no shard", integrity.unplaced),
        ("validation errors", integrity.validation_errors),
        ("rejected", integrity.rejected),
        ("unknown, present", integrity.unknown_present),
        ("unknown, absent", integrity.unknown_absent),
        ("not audited", integrity.not_audited),
        ("of others", integrity.foreign),
    ];
    rows.iter().for_each(|(name, count)| print(&format!("  {name:<18}{count:>14}\n")));
    integrity.foreign_runs.iter().for_each(|(run, count)| {
        let name = format!("  of run {run}");
        print(&format!("  {name:<24}{count:>8}\n"));
    });
    let not_judged = integrity.not_judged.iter();
    not_judged.for_each(|sentence| print(&format!("{}\n", hanging(sentence, "  ", width))));
    integrity.examples.iter().for_each(|example| print(&format!("{}\n", hanging(example, "  ", width))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_that_were_not_checked_leave_the_audit_open() {
        let whole = Integrity { acknowledged: 2, found: 2, ..Integrity::default() };
        let open = Integrity { unchecked_transactions: 1, ..whole.clone() };
        let broken = Integrity { lost: 1, found: 1, ..open.clone() };
        assert_eq!([&whole, &open, &broken].map(exit), [Exit::Held, Exit::Server, Exit::Integrity]);
    }

    #[test]
    fn strangers_beyond_the_phantoms_of_the_run_are_of_others() {
        let counted = |phantom, foreign, of_runs| {
            let foreign_runs = [("r".to_owned(), of_runs)].into();
            Integrity { phantom, foreign, foreign_runs, ..Integrity::default() }
        };
        for (mut found, was_alone, phantom, expected) in [
            (counted(0, 3, 0), true, 1, (1, 2)),
            (counted(0, 1, 0), true, 1, (1, 0)),
            (counted(0, 0, 0), true, 1, (0, 0)),
            (counted(2, 1, 0), true, 2, (2, 1)),
            (counted(0, 3, 3), true, 1, (0, 3)),
            (counted(0, 3, 0), true, 0, (0, 3)),
            (counted(0, 3, 0), false, 1, (0, 3)),
        ] {
            let kept = Integrity { was_alone, phantom, ..Integrity::default() };
            count_phantoms_of_the_run(&mut found, &kept);
            assert_eq!((found.phantom, found.foreign), expected, "{kept:?}");
        }
    }
}
