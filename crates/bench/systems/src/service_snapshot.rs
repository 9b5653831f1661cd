//! Keeps the filled database of a service for later runs that fill in the same data.

use std::fs;
use std::time::UNIX_EPOCH;

use anyhow::Context;
use plimsoll_host::Snapshots;
use plimsoll_measure::environment::ServerFacts;
use plimsoll_run::injection::Owned;
use plimsoll_run::reexec;
use plimsoll_run::server_provisioning::{self, RunningServer};
use plimsoll_run::system::Fill;
use plimsoll_scenario::ServiceSpec;
use serde_json::{Value, json};

/// The snapshot of a fill on a server that the run started.
#[derive(Debug)]
pub(crate) struct Snapshot<'a> {
    server: &'a Owned,
    snapshots: Snapshots,
    key: String,
}

impl<'a> Snapshot<'a> {
    /// The snapshot that a fill asks for. `None` if it asks for none, or the run has not started the one server.
    ///
    /// # Errors
    /// When the cache or the program cannot be found.
    pub(crate) fn of(
        spec: &ServiceSpec,
        fill: &Fill,
        place: &'a RunningServer,
        facts: &ServerFacts,
    ) -> anyhow::Result<Option<Self>> {
        let started = place.server.as_ref().filter(|_| place.others.is_empty());
        let (Some(data), Some(server)) = (&fill.snapshot, started) else { return Ok(None) };
        let snapshots = Snapshots::of(&server_provisioning::cache()?);
        Ok(Some(Self { server, snapshots, key: key(&program()?, spec, data, facts) }))
    }

    /// Restores the snapshot: the server restarts with it. `false` if it does not exist.
    ///
    /// # Errors
    /// When the data cannot be copied, or the server does not restart.
    pub(crate) fn restore(&self) -> anyhow::Result<bool> {
        let restored = self.server.server().use_snapshot(&self.snapshots, &self.key);
        restored.context("use the snapshot of the service's database")
    }

    /// Takes the snapshot: the server restarts. Returns the reason if there is none.
    ///
    /// # Errors
    /// When the server does not restart.
    pub(crate) fn take(&self) -> anyhow::Result<Option<String>> {
        let taken = self.server.server().take_snapshot(&self.snapshots, &self.key);
        taken.context("keep a snapshot of the service's database")
    }
}

/// The description of data: equal texts stand for equal databases.
fn key(program: &Value, spec: &ServiceSpec, data: &Value, server: &ServerFacts) -> String {
    let ServerFacts { kind, profile, version, product, storage_engine, .. } = server;
    let server = json!([kind, profile, version, product, storage_engine]);
    let service = json!({"name": spec.name, "settings": spec.settings, "data": data});
    json!({"program": program, "service": service, "server": server}).to_string()
}

/// The version of this program. Two builds of one version differ in their file.
fn program() -> anyhow::Result<Value> {
    let file = fs::metadata(reexec::program()).context("find this program")?;
    let changed = file.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let changed_ns = changed.map(|at| at.as_nanos().to_string());
    Ok(json!([env!("CARGO_PKG_VERSION"), file.len(), changed_ns]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_description_counts() {
        let spec = |value| serde_json::from_value::<ServiceSpec>(json!({"catalogue": value})).unwrap();
        let facts = |version: &str| ServerFacts { version: Some(version.into()), ..ServerFacts::default() };
        let bare = || (json!(["1", 5]), spec(json!({})), json!({"seed": 1}), facts("7.0"));
        let of = |(program, spec, data, facts)| key(&program, &spec, &data, &facts);
        assert_eq!(of(bare()), of(bare()));
        let mut others = vec![bare(); 4];
        others[0].0 = json!(["1", 6]);
        others[1].1 = spec(json!({"settings": {"database": {"name": "other"}}}));
        others[2].2 = json!({"seed": 2});
        others[3].3 = facts("8.0");
        for other in others {
            assert_ne!(of(other), of(bare()));
        }
    }
}
