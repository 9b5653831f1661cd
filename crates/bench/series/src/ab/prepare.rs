//! Resolves A and B and checks that they can be measured and compared.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use plimsoll_measure::comparison::sign_flip::{ALPHA, PAIRS_MAX, PAIRS_MIN, smallest_p};
use plimsoll_mongo::scenario::Existing;

use super::comparing::Judging;
use super::equivalence::{Sender, is_same};
use super::side::Side;
use crate::isolation::Exclusive;
use crate::server::Server;
use plimsoll_run::options::LoadOptions;
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::{Isolation, Subject, resolve};
use plimsoll_scenario::secret::without_password;
use plimsoll_scenario::{self as scenario, Loaded};
use plimsoll_scenario::{Plan, plan};

/// The request for a comparison.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The scenario's name or file.
    pub scenario: String,
    /// The description of A.
    pub a: Vec<String>,
    /// The description of B.
    pub b: Vec<String>,
    /// The number of pairs.
    pub pairs: u32,
    /// Whether A and B are equal on purpose.
    pub same: bool,
    /// The directory of an earlier comparison to complete.
    pub resume: Option<PathBuf>,
    /// The criteria of the comparison.
    pub judge: Judging,
    /// The options of every run.
    pub load: LoadOptions,
    /// Whether the runs are silent.
    pub quiet: bool,
}

/// A side that is ready for its runs.
pub struct Prepared {
    /// Its description.
    pub side: Side,
    /// The options of its runs.
    pub options: LoadOptions,
    /// Its scenario.
    pub loaded: Loaded,
    /// The number of its phases.
    pub phases: usize,
    /// The system that it loads.
    pub subject: Arc<dyn Subject>,
    /// The exclusive data of each run.
    pub exclusive: Exclusive,
    /// The running server that holds each run's own collection or database, once it is open.
    pub server: Option<Server>,
}

impl Prepared {
    /// The choice of a running server that holds each run's own collection or database. `None` if the runs
    /// need no such server.
    pub fn running_server(&self) -> Option<&Choice> {
        let stays =
            matches!(self.exclusive, Exclusive::NumberedCollection(_) | Exclusive::NumberedDatabase { .. });
        self.subject.server().filter(|_| stays)
    }

    /// The arguments of run `number`.
    pub fn arguments(&self, scenario: &str, number: u32) -> Vec<String> {
        let options = &self.options;
        let flag = |name: &str, value: String| [name.to_owned(), value];
        let server = options.server.iter().map(|server| flag("--server", server.clone()));
        let hosts = (!options.hosts.is_empty()).then(|| flag("--hosts", options.hosts.join(",")));
        let count = (options.count > 1).then(|| flag("--count", options.count.to_string()));
        let seed = options.seed.map(|seed| flag("--seed", seed.to_string()));
        let overrides = options.overrides.iter().map(|it| flag("--set", it.clone()));
        let flags = server.chain(hosts).chain(count).chain(seed).chain(overrides).flatten();
        let no_calibration = (!options.calibrate).then(|| "--no-calibration".to_owned());
        let run = ["run".to_owned(), scenario.to_owned()];
        let own = self.exclusive.arguments(number);
        run.into_iter().chain(flags).chain(no_calibration).chain(own).collect()
    }

    /// The parts of this side that decide the load and its destination.
    fn sender(&self) -> Sender<'_> {
        Sender { side: &self.side, scenario: &self.loaded.scenario, subject: self.subject.as_ref() }
    }

    /// Its servers, without passwords.
    pub fn servers(&self) -> String {
        let named =
            self.options.server.iter().chain(&self.options.hosts).map(|server| without_password(server));
        format!("{} × {}", named.collect::<Vec<_>>().join(" "), self.options.count)
    }
}

/// Resolves both sides before any run starts.
///
/// # Errors
/// When an option is invalid. The error names the first.
pub fn prepare(settings: &Settings) -> anyhow::Result<[Prepared; 2]> {
    let pairs = settings.pairs as usize;
    ensure!(
        pairs >= PAIRS_MIN,
        "--pairs {pairs}: the smallest possible p is {:.4}, and a difference needs {ALPHA} or less; measure at least \
         {PAIRS_MIN}",
        smallest_p(pairs)
    );
    ensure!(pairs <= PAIRS_MAX, "--pairs {pairs}: at most {PAIRS_MAX} are compared");
    ensure!(
        plan::shard(&settings.load.shard)?.of == 1,
        "--shard: a comparison measures the whole load; leave it out"
    );
    ensure!(
        !settings.load.keep,
        "--keep: `ab` cannot keep the storage of its runs; repeat one run with `plimsoll run --keep`"
    );
    let a = side("--a", settings, &settings.a)?;
    let b = side("--b", settings, &settings.b)?;
    let is_same = is_same(a.sender(), b.sender());
    ensure!(
        settings.same || !is_same,
        "A and B are identical: describe B with --b 'server=…', --b 'set PATH=VALUE' or --b 'binary=FILE', or measure \
         noise alone with --same"
    );
    ensure!(
        !settings.same || is_same,
        "--same: A and B differ ({} and {}): leave out --same",
        a.side.name(),
        b.side.name()
    );
    ensure!(
        is_database(&a) == is_database(&b),
        "A and B: one is a database and the other a service, and they cannot get the same load: give both the same section \
         `http`"
    );
    Ok([a, b])
}

fn is_database(side: &Prepared) -> bool {
    side.subject.isolation() == Isolation::Collection
}

fn side(flag: &str, settings: &Settings, words: &[String]) -> anyhow::Result<Prepared> {
    let side = Side::read(flag, words)?;
    let load_options = side.with(&settings.load);
    let loaded = scenario::load(&settings.scenario, &load_options.overrides, load_options.seed)
        .with_context(|| flag.to_owned())?;
    ensure!(
        loaded.scenario.matrix.is_none(),
        "{} is a matrix of runs: compare two of its cells with `plimsoll compare`, or give a scenario without one",
        settings.scenario
    );
    let plan = Plan::build(&loaded)
        .map_err(|error| loaded.located(error))
        .with_context(|| format!("{flag}: scenario {}", settings.scenario))?;
    let subject = resolve(load_options.registry, &loaded, &plan, load_options.address())
        .with_context(|| flag.to_owned())?;
    let exclusive = Exclusive::of(subject.as_ref(), &loaded);
    exclusive.check(settings.pairs.saturating_mul(2))?;
    ensure!(
        !matches!(exclusive, Exclusive::NumberedCollection(_))
            || loaded.scenario.existing == Existing::Refuse,
        "existing: each run writes to its own new collection: leave out `existing`"
    );
    Ok(Prepared {
        side,
        options: load_options,
        phases: plan.phases.len(),
        loaded,
        subject,
        exclusive,
        server: None,
    })
}
