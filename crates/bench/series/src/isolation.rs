//! Isolates the runs of a series: gives each run its own collection or database.

use std::mem::discriminant;

use anyhow::{anyhow, bail};
use plimsoll_deployment::{Namespace, fault_of_database};
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::{Isolation, Subject};
use plimsoll_scenario::{Loaded, put};
use serde_json::Value;

/// The key of a scenario that names its collection.
const COLLECTION: &str = "collection";

/// The isolation that all cells of a matrix share.
///
/// # Errors
/// When cells have different isolation: their runs would start from different states.
pub fn common<'a>(subjects: impl IntoIterator<Item = &'a dyn Subject>) -> anyhow::Result<Isolation> {
    let mut all = subjects.into_iter().map(Subject::isolation);
    let first = all.next().unwrap_or(Isolation::Collection);
    match all.find(|other| discriminant(other) != discriminant(&first)) {
        Some(other) => bail!(
            "matrix: some cells go to {}, others to {}: their runs would start from different states: use two matrices",
            words(&first),
            words(&other)
        ),
        None => Ok(first),
    }
}

const fn words(isolation: &Isolation) -> &'static str {
    match isolation {
        Isolation::Collection => "a database",
        Isolation::Shared => "a running service",
        Isolation::Fresh => "a service on a server that is started for it",
        Isolation::Database { .. } => "a service on a running server",
    }
}

/// The exclusive data of each run of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusive {
    /// A collection of this name, on a server that ends with the run.
    Collection(String),
    /// A collection of this name and the run's number, on a server that stays.
    NumberedCollection(String),
    /// A database of this name and the run's number, for a service that the run starts on a running server.
    NumberedDatabase {
        /// The scenario's key of the name.
        path: String,
        /// The name in the scenario.
        base: String,
    },
    /// No exclusive data: the service has its own server, or serves other clients too.
    Nothing,
}

impl Exclusive {
    /// The exclusive data of each run on `subject`, if each run finds or starts its own server.
    pub fn of(subject: &dyn Subject, loaded: &Loaded) -> Self {
        let is_running = subject.server().is_some_and(Choice::is_running);
        match Self::on_shared_server(subject, loaded) {
            Self::NumberedCollection(name) if !is_running => Self::Collection(name),
            other => other,
        }
    }

    /// The exclusive data of each run on `subject`, if all runs share one server.
    pub fn on_shared_server(subject: &dyn Subject, loaded: &Loaded) -> Self {
        match subject.isolation() {
            Isolation::Collection => Self::NumberedCollection(loaded.scenario.collection.clone()),
            Isolation::Database { path, name } => Self::NumberedDatabase { path, base: name },
            Isolation::Shared | Isolation::Fresh => Self::Nothing,
        }
    }

    /// Its name for run `number`, if it has one.
    pub fn name(&self, number: u32) -> Option<String> {
        match self {
            Self::Collection(name) => Some(name.clone()),
            // A name without a database is refused elsewhere.
            Self::NumberedCollection(base) => Some(
                base.parse::<Namespace>().map_or_else(|_| base.clone(), |base| format!("{base}_{number}")),
            ),
            Self::NumberedDatabase { base, .. } => Some(format!("{base}_{number}")),
            Self::Nothing => None,
        }
    }

    /// Refuses a name that has no place for the numbers of runs up to `last`.
    ///
    /// # Errors
    /// When the name of a run would be too long, or is invalid.
    pub fn check(&self, last: u32) -> anyhow::Result<()> {
        let Some(name) = self.name(last) else { return Ok(()) };
        let fault = match self {
            Self::NumberedDatabase { .. } => fault_of_database(&name),
            _ => name.parse::<Namespace>().err().map(|error| error.to_string()),
        };
        fault.map_or(Ok(()), |fault| Err(anyhow!("each run gets its own name, such as {name}: {fault}")))
    }

    /// The arguments that give run `number` its name.
    pub fn arguments(&self, number: u32) -> Vec<String> {
        let path = if let Self::NumberedDatabase { path, .. } = self { path.as_str() } else { COLLECTION };
        let name = self.name(number).map(|name| ["--set".to_owned(), format!("{path}={name}")]);
        name.into_iter().flatten().collect()
    }

    /// Puts the common name into a run's scenario, so that a comparison finds no difference in the name of a
    /// database.
    pub fn restore(&self, scenario: &mut Value) {
        if let Self::NumberedDatabase { path, base } = self {
            // A scenario without that key cannot differ in it.
            let _ = put(scenario, path, Value::from(base.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_systems::{DatabaseAt, ManagedService, RunningService, ServiceKind};
    use serde_json::json;

    use super::*;
    use crate::matrix::cells::tests::{SCENARIO, loaded};

    #[derive(Debug)]
    struct Telemetry;

    impl ServiceKind for Telemetry {
        fn name(&self) -> &'static str {
            "telemetry"
        }
    }

    fn service(spec: &str, server: Choice) -> ManagedService {
        let spec = serde_saphyr::from_str(spec).unwrap();
        ManagedService { kind: &Telemetry, spec, server: Some(server), services: &[] }
    }

    fn staged(server: Choice) -> ManagedService {
        service("telemetry: {}", server)
    }

    fn running() -> RunningService {
        RunningService { url: "http://h".into(), services: &[] }
    }

    #[test]
    fn a_service_starts_on_its_own_server_unless_a_server_is_given() {
        let (any, mongod) = (staged(Choice::Any), staged(Choice::Mongod));
        let anew: [&dyn Subject; 2] = [&any, &mongod];
        assert_eq!(common(anew).unwrap(), Isolation::Fresh);
        let named = staged(Choice::Uri("mongodb://h".into()));
        assert!(matches!(common([&named as &dyn Subject]).unwrap(), Isolation::Database { .. }));
    }

    #[test]
    fn cells_that_start_from_different_states_are_refused() {
        let (running, managed) = (running(), staged(Choice::Any));
        let mixed: [&dyn Subject; 2] = [&running, &managed];
        let message = common(mixed).unwrap_err().to_string();
        assert!(message.contains("a running service, others to a service on a server"), "{message}");
    }

    fn exclusive(subject: &dyn Subject) -> Exclusive {
        Exclusive::of(subject, &loaded(SCENARIO))
    }

    #[test]
    fn a_run_has_its_own_collection_its_own_database_or_no_own_data() {
        let uri = || Choice::Uri("mongodb://h".into());
        let staged = |server| service("telemetry: {settings: {database: {name: feeds}}}", server);
        let cases: [(Box<dyn Subject>, Option<&str>); 5] = [
            (Box::new(DatabaseAt(Choice::Any)), Some("collection=plimsoll.writes")),
            (Box::new(DatabaseAt(uri())), Some("collection=plimsoll.writes_7")),
            (Box::new(staged(uri())), Some("service.telemetry.settings.database.name=feeds_7")),
            (Box::new(staged(Choice::Any)), None),
            (Box::new(running()), None),
        ];
        for (subject, word) in cases {
            assert_eq!(
                exclusive(subject.as_ref()).arguments(7).get(1).map(String::as_str),
                word,
                "{subject:?}"
            );
        }
        let mut scenario = json!({"service": {"telemetry": {"settings": {"database": {"name": "feeds_7"}}}}});
        exclusive(&staged(uri())).restore(&mut scenario);
        assert_eq!(scenario["service"]["telemetry"]["settings"]["database"]["name"], "feeds");
    }

    #[test]
    fn a_name_without_place_for_the_runs_number_is_refused() {
        let collection = |bytes: usize| Exclusive::NumberedCollection(format!("a.{}", "b".repeat(bytes - 2)));
        assert!(collection(253).check(9).is_ok());
        let said = collection(253).check(10).unwrap_err().to_string();
        assert!(said.contains("it has 256 bytes: shorten it to 255"), "{said}");
        let database =
            |bytes: usize| Exclusive::NumberedDatabase { path: "name".into(), base: "d".repeat(bytes) };
        assert!(database(61).check(9).is_ok());
        let said = database(61).check(10).unwrap_err().to_string();
        assert!(said.contains("has 64 bytes: shorten it to 63"), "{said}");
        assert!(Exclusive::Nothing.check(9).is_ok());
    }
}
