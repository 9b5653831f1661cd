//! Sends a load of inserts with the engine while an event changes the deployment, and audits it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_deployment::Deployment;
use plimsoll_ledger::{Allocation, Findings, Ledger, OtherWriters, Touched};
use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Engine, Progress};
use plimsoll_load::phase::{Load, Phase};
use plimsoll_load::retry::Retry;
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_mongo::audit::{Audited, Error, Listener, Scope, scan};
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::setup::Setup;
use plimsoll_wire::ConnectOptions;

use crate::scripts::{TIMEOUT, ledger, plan, run};

/// The number of operations of a load.
pub const OPERATIONS: u64 = 12_000;
/// The longest wait of an audit for a member that lags: short, because some tests leave a member behind.
const LAG_MAX: Duration = Duration::from_secs(1);
/// The collection of every plan.
pub const NAMESPACE: &str = "d.c";
/// The number of writers of a load.
pub const WRITERS: usize = 4;

/// The result of a load.
pub struct Loaded {
    setup: Arc<Setup>,
    deployment: Arc<Deployment>,
    ledger: Ledger,
    /// The number of acknowledged operations.
    pub acknowledged: u64,
    pub failed: u64,
    pub retries: u64,
    pub findings: Findings,
}

impl Loaded {
    /// The `_id`s of lost documents.
    pub fn lost(&self) -> BTreeSet<[u8; 12]> {
        self.ids(&self.findings.examples.lost)
    }

    /// The `_id`s of documents.
    pub fn ids(&self, numbers: &[u64]) -> BTreeSet<[u8; 12]> {
        let id = |number: &u64| self.setup.run.receipt(*number).to_object_id();
        numbers.iter().map(id).collect()
    }

    /// Reads everything back once more, now.
    pub fn audit(&self) -> Result<Audited, Error> {
        self.audit_with(&mut ())
    }

    /// Reads everything back once more, and reports the progress.
    pub fn audit_with(&self, listener: &mut impl Listener) -> Result<Audited, Error> {
        run(async {
            let servers = [ConnectOptions::new(self.deployment.connect().await.unwrap().address().clone())];
            let scope = Scope::of(&self.setup, &Touched::None, OtherWriters::Excluded);
            let scope = Scope { lag_max: LAG_MAX, ..scope };
            scan(&servers, &self.ledger, scope, listener).await
        })
    }

    /// With retries a load at majority meets no failure, and loses nothing.
    #[track_caller]
    pub fn check_unharmed(&self) {
        assert_eq!((self.acknowledged, self.failed), (OPERATIONS, 0), "{} retries", self.retries);
        let found = &self.findings;
        assert_eq!((found.acknowledged, found.found, found.lost), (OPERATIONS, OPERATIONS, 0), "{found:?}");
        assert_eq!((found.duplicated, found.phantom, found.unknown_present), (0, 0, 0), "{found:?}");
    }
}

fn phase(retry: Option<Retry>) -> Phase {
    let load = Load::new("insert", Arrivals::Closed { writers: WRITERS as u32 });
    let stop = Stop { operations: Some(OPERATIONS), ..Stop::default() };
    Phase { retry, ..Phase::new(load, stop) }
}

/// Waits until a condition holds; fails after a minute.
pub fn wait_until(holds: impl Fn() -> bool) {
    let began = clock::now();
    while !holds() {
        assert!(clock::now().since(began) < 60 * clock::SECOND_NS, "the load did not get there");
        std::thread::yield_now();
    }
}

/// Sends a load of inserts to the deployment of a URI; `more` are further keys of its section. `event` runs
/// during the load.
pub fn load(uri: &str, more: &str, retry: Option<Retry>, event: impl FnOnce() + Send) -> Loaded {
    let setup = Arc::new(plan(more, &[("insert", r#"{"insert": {}}"#)]));
    let deployment = Arc::new(run(Deployment::find(uri, TIMEOUT)).unwrap());
    let lean = Arc::new(Lean::new(setup.clone(), deployment.clone(), ledger(&setup)));
    let mut engine = Engine::new(vec![lean], 1, Share::WHOLE, Spin::Off).unwrap();
    let (mut acknowledged, mut failed, mut retries) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(event);
        let count = |progress| {
            if let Progress::Second(second) = progress {
                acknowledged += second.tallies.iter().map(|tally| tally.count).sum::<u64>();
                failed += second.tallies.iter().map(|tally| tally.errors.total()).sum::<u64>();
                retries += second.tallies.iter().map(|tally| tally.retries).sum::<u64>();
            }
        };
        engine.run(&phase(retry), &Control::default(), &mut [], count).unwrap();
    });
    let lean = engine.into_targets().into_iter().next().and_then(Arc::into_inner).unwrap();
    let closed = lean.close().unwrap();
    let mut whole = Ledger::new(setup.run, Allocation::new(setup.block(), 1, None).unwrap());
    whole.adopt(closed.worker, closed.ledger);
    let findings = Findings::default();
    let mut loaded = Loaded { setup, deployment, ledger: whole, acknowledged, failed, retries, findings };
    loaded.findings = loaded.audit().unwrap().findings;
    loaded
}
