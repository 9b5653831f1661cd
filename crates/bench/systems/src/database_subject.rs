//! Resolves the database that a scenario loads.

use std::sync::Arc;

use anyhow::ensure;
use plimsoll_deployment::pool_options;
use plimsoll_load::worker::Control;
use plimsoll_mongo::scenario::Connections;
use plimsoll_mongo::setup::Copies;
use plimsoll_run::exit::Outcome;
use plimsoll_run::run_dir::RunDir;
use plimsoll_run::server_provisioning::{Choice, ServerAddress, StartOptions};
use plimsoll_run::system::{Estimate, Isolation, Kind, RunContext, Subject, System};
use plimsoll_scenario::{Loaded, Plan, Victim};
use tokio::runtime::Runtime;

use crate::check;
use crate::database::{Database, compile};
use crate::promise::Promise;

/// A placeholder run ID for documents and commands that are compiled only for a check.
const ANY_RUN: plimsoll_ledger::Run = plimsoll_ledger::Run { time_s: 0, tag: [0; 3] };

/// Scenarios that load a database.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseKind;

impl Kind for DatabaseKind {
    fn resolve(
        &self,
        loaded: &Loaded,
        address: ServerAddress<'_>,
    ) -> anyhow::Result<Option<Arc<dyn Subject>>> {
        let scenario = &loaded.scenario;
        if scenario.http.is_some() || scenario.workflow.is_some() {
            return Ok(None);
        }
        ensure!(
            scenario.service.is_none(),
            "service: a scenario that starts a service sends requests to it: add `http: {{}}`"
        );
        Ok(Some(Arc::new(DatabaseAt(check::choose(address, scenario)?))))
    }
}

/// A database.
#[derive(Clone, Debug)]
pub struct DatabaseAt(pub Choice);

impl Subject for DatabaseAt {
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
        let mut setup = compile(loaded, plan, ANY_RUN)?;
        let to_service = plan.injections.iter().any(|aimed| aimed.victim == Victim::Service);
        ensure!(!to_service, "faults: victim: service: this scenario starts no service");
        check::faults(plan, &self.0)?;
        check::several(&loaded.scenario, plan, &self.0)?;
        check::cache(&loaded.scenario, &self.0)?;
        check::options(&loaded.scenario, plan, &self.0)?;
        setup.inherit(&check::concerns(&self.0)?, Copies::One);
        // The number of copies is known only to the server. Concerns that promise nothing of one copy promise nothing of several.
        Promise::of(&setup, Copies::One).map(drop)
    }

    fn open(
        &self,
        context: RunContext<'_>,
        _: &RunDir,
        start: StartOptions,
        _: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>> {
        let place = check::open_place(context, &self.0, start, &runtime)?;
        Ok(Box::new(Database::open(context, place, runtime)?))
    }

    fn server(&self) -> Option<&Choice> {
        Some(&self.0)
    }

    fn warnings(&self, loaded: &Loaded, plan: &Plan) -> Vec<String> {
        let (client, load) = (loaded.scenario.client, plan.connections());
        let pools = self.0.uris().into_iter().map(pool_options);
        let pools = pools.flat_map(|pool| Connections::without_effect(client, &pool, load));
        self.0.warnings().into_iter().chain(pools).collect()
    }

    fn isolation(&self) -> Isolation {
        Isolation::Collection
    }

    fn estimate(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<Estimate> {
        Ok(Estimate { audited: Some(Arc::new(compile(loaded, plan, ANY_RUN)?)), fill: None })
    }

    fn on_database(&self, _: &str) -> Option<Arc<dyn Subject>> {
        None
    }

    fn canonical(&self) -> String {
        format!("{:?}", self.0.canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concerns_that_promise_nothing_are_refused_before_a_server_is_found_or_started() {
        let check = |write_concern: &str, choice: Choice| {
            let assignments = [format!("write_concern={write_concern}"), "phases.0.faults=[]".to_owned()];
            let loaded = plimsoll_scenario::load("consistency", &assignments, None).unwrap();
            let plan = Plan::build(&loaded).unwrap();
            DatabaseAt(choice).check(&loaded, &plan).map_err(|error| error.to_string())
        };
        let any = || "embedded".parse().unwrap();
        let uri = |option: &str| Choice::Uri(format!("mongodb://127.0.0.1:9/?{option}"));
        let promises_nothing = |checked: Result<(), String>, concern: &str| {
            let refusal = checked.unwrap_err();
            assert!(refusal.contains("promises nothing") && refusal.contains(concern), "{refusal}");
        };
        promises_nothing(check("{w: 1}", any()), r#"{"w": 1}"#);
        promises_nothing(check("{}", any()), "the server's default");
        promises_nothing(check("{}", uri("w=1")), r#"{"w": 1}"#);
        assert_eq!(check("{w: majority}", any()), Ok(()));
        assert_eq!(check("{}", uri("w=majority")), Ok(()));
    }
}
