//! A and B before anything is started: what they are, and whether they can be measured and compared.

use anyhow::{Context, ensure};
use plimsoll_measure::comparison::sign_flip::{ALPHA, PAIRS_MAX, PAIRS_MIN, smallest_p};
use plimsoll_mongo::scenario::Existing;

use crate::ab::side::{Side, without_password};
use crate::check;
use crate::cli::{AbArgs, LoadArgs};
use crate::place::{Choice, Place};
use crate::plan::{self, Plan};
use crate::scenario::{self, Loaded};

/// A side that is ready to be measured.
pub struct Prepared {
    /// What it is.
    pub side: Side,
    /// How and where it is measured.
    pub args: LoadArgs,
    /// Its scenario.
    pub loaded: Loaded,
    /// How many phases that has.
    pub phases: usize,
    /// Its server.
    pub server: Choice,
    /// The server, where it stays when a run ends.
    pub standing: Option<Place>,
}

impl Prepared {
    /// The servers that it was asked to be measured on, without passwords.
    pub fn servers(&self) -> String {
        let named = self.args.server.iter().chain(&self.args.hosts).map(|server| without_password(server));
        format!("{} × {}", named.collect::<Vec<_>>().join(" "), self.args.count)
    }
}

/// Everything that is decided before anything is started.
///
/// # Errors
/// What cannot be meant.
pub fn prepare(args: &AbArgs) -> anyhow::Result<[Prepared; 2]> {
    let pairs = args.pairs as usize;
    ensure!(
        pairs >= PAIRS_MIN,
        "--pairs {pairs}: the smallest p that so few pairs can give is {:.4}, and a difference is shown at {ALPHA} or less; \
         measure {PAIRS_MIN} at least",
        smallest_p(pairs)
    );
    ensure!(pairs <= PAIRS_MAX, "--pairs {pairs}: at most {PAIRS_MAX} are compared");
    ensure!(
        plan::shard(&args.load.shard)?.of == 1,
        "--shard: a comparison measures the whole load; leave it out"
    );
    ensure!(
        !args.load.keep,
        "--keep: so many storages are seldom wanted; make the run that matters again with `plimsoll run`"
    );
    let a = side("--a", args, &args.a)?;
    let b = side("--b", args, &args.b)?;
    let is_same =
        a.loaded.scenario == b.loaded.scenario && a.server == b.server && a.side.binary == b.side.binary;
    ensure!(
        args.same || !is_same,
        "A and B are the same thing: say what B is with --b 'server=…', --b 'set PATH=VALUE' or --b 'binary=FILE', or ask with \
         --same what noise alone does"
    );
    ensure!(
        !args.same || is_same,
        "--same: A and B differ ({} and {}): leave out --same",
        a.side.name(),
        b.side.name()
    );
    Ok([a, b])
}

fn side(flag: &str, args: &AbArgs, words: &[String]) -> anyhow::Result<Prepared> {
    let side = Side::read(flag, words)?;
    let load_args = side.with(&args.load);
    let loaded = scenario::load(&args.scenario, &load_args.overrides, load_args.seed)
        .with_context(|| flag.to_owned())?;
    ensure!(
        loaded.scenario.matrix.is_none(),
        "{} is a matrix of runs: compare two of its cells with `plimsoll compare`, or give a scenario without one",
        args.scenario
    );
    let plan = Plan::build(&loaded).with_context(|| format!("{flag}: scenario {}", args.scenario))?;
    ensure!(
        loaded.scenario.http.is_none(),
        "{flag}: `ab` starts or finds databases, and this scenario loads a service: make the runs with `plimsoll run`, and hold them \
         against each other with `plimsoll compare`"
    );
    let server = check::choose(&load_args, &loaded.scenario).with_context(|| flag.to_owned())?;
    check::setup(&loaded, &plan).with_context(|| flag.to_owned())?;
    check::faults(&plan, &server)?;
    check::several(&loaded.scenario, &plan, &server)?;
    check::cache(&loaded.scenario, &server)?;
    ensure!(
        !stays(&server) || loaded.scenario.existing == Existing::Refuse,
        "existing: each run writes to a new collection of its own: leave out `existing`"
    );
    Ok(Prepared { side, args: load_args, phases: plan.phases.len(), loaded, server, standing: None })
}

/// Whether the server is still there when a run has ended.
pub fn stays(server: &Choice) -> bool {
    match server {
        Choice::Uri(_) => true,
        Choice::Several(all) => all.iter().any(stays),
        Choice::Any | Choice::Embedded(_) | Choice::Mongod => false,
    }
}
