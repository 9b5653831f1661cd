//! Resolves A and B and checks that they can be measured and compared.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use plimsoll_measure::comparison::sign_flip::{ALPHA, PAIRS_MAX, PAIRS_MIN, smallest_p};
use plimsoll_mongo::scenario::Existing;

use super::comparing::Judging;
use super::equivalence::{Thing, is_same};
use super::side::Side;
use crate::isolation::{Own, Venue};
use plimsoll_run::options::LoadOptions;
use plimsoll_run::server_provisioning::{Choice, Place};
use plimsoll_run::system::{Subject, resolve};
use plimsoll_scenario::secret::without_password;
use plimsoll_scenario::{self as scenario, Loaded};
use plimsoll_scenario::{Plan, plan};

/// A comparison as the user asks for it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The scenario's name or file.
    pub scenario: String,
    /// The words that say what A is.
    pub a: Vec<String>,
    /// The words that say what B is.
    pub b: Vec<String>,
    /// Pairs of runs.
    pub pairs: u32,
    /// Whether A and B are the same on purpose.
    pub same: bool,
    /// The directory of an earlier comparison to complete.
    pub resume: Option<PathBuf>,
    /// How the two are judged.
    pub judge: Judging,
    /// How and where each run is made.
    pub load: LoadOptions,
    /// Whether the runs themselves print nothing.
    pub quiet: bool,
}

/// A side that is ready to be measured.
pub struct Prepared {
    /// What it is.
    pub side: Side,
    /// How and where it is measured.
    pub options: LoadOptions,
    /// Its scenario.
    pub loaded: Loaded,
    /// How many phases that has.
    pub phases: usize,
    /// What it loads.
    pub subject: Arc<dyn Subject>,
    /// What each of its runs has to itself.
    pub own: Own,
    /// The server, where it stays when a run ends and a run has something to itself on it.
    pub standing: Option<Place>,
}

impl Prepared {
    /// The server that stays, on which each run has something to itself.
    pub fn kept_server(&self) -> Option<&Choice> {
        let stays = matches!(self.own, Own::Collections(_) | Own::Databases { .. });
        self.subject.server().filter(|_| stays)
    }

    /// What of it decides what is measured.
    fn thing(&self) -> Thing<'_> {
        Thing { side: &self.side, scenario: &self.loaded.scenario, subject: self.subject.as_ref() }
    }

    /// The servers that it was asked to be measured on, without passwords.
    pub fn servers(&self) -> String {
        let named =
            self.options.server.iter().chain(&self.options.hosts).map(|server| without_password(server));
        format!("{} × {}", named.collect::<Vec<_>>().join(" "), self.options.count)
    }
}

/// Everything that is decided before anything is started.
///
/// # Errors
/// What cannot be meant.
pub fn prepare(settings: &Settings) -> anyhow::Result<[Prepared; 2]> {
    let pairs = settings.pairs as usize;
    ensure!(
        pairs >= PAIRS_MIN,
        "--pairs {pairs}: the smallest p that so few pairs can give is {:.4}, and a difference is shown at {ALPHA} or less; \
         measure {PAIRS_MIN} at least",
        smallest_p(pairs)
    );
    ensure!(pairs <= PAIRS_MAX, "--pairs {pairs}: at most {PAIRS_MAX} are compared");
    ensure!(
        plan::shard(&settings.load.shard)?.of == 1,
        "--shard: a comparison measures the whole load; leave it out"
    );
    ensure!(
        !settings.load.keep,
        "--keep: so many storages are seldom wanted; make the run that matters again with `plimsoll run`"
    );
    let a = side("--a", settings, &settings.a)?;
    let b = side("--b", settings, &settings.b)?;
    let is_same = is_same(a.thing(), b.thing());
    ensure!(
        settings.same || !is_same,
        "A and B are the same thing: say what B is with --b 'server=…', --b 'set PATH=VALUE' or --b 'binary=FILE', or ask with \
         --same what noise alone does"
    );
    ensure!(
        !settings.same || is_same,
        "--same: A and B differ ({} and {}): leave out --same",
        a.side.name(),
        b.side.name()
    );
    ensure!(
        Venue::of(a.subject.as_ref()).is_audited() == Venue::of(b.subject.as_ref()).is_audited(),
        "A and B: one is a database and the other a service, and nothing that is sent to the one can be sent to the other: give \
         both the same section `http`"
    );
    Ok([a, b])
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
    let plan = Plan::build(&loaded).with_context(|| format!("{flag}: scenario {}", settings.scenario))?;
    let subject = resolve(load_options.registry, &loaded, &plan, load_options.address())
        .with_context(|| flag.to_owned())?;
    let own = Own::of(subject.as_ref(), &loaded);
    ensure!(
        !matches!(own, Own::Collections(_)) || loaded.scenario.existing == Existing::Refuse,
        "existing: each run writes to a new collection of its own: leave out `existing`"
    );
    Ok(Prepared {
        side,
        options: load_options,
        phases: plan.phases.len(),
        loaded,
        subject,
        own,
        standing: None,
    })
}
