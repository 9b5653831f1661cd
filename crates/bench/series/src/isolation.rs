//! Gives every run of a series the same start: decides where runs are made, and which collection or database each has alone.

use anyhow::bail;
use plimsoll_deployment::Namespace;
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::{Isolation, Subject};
use plimsoll_scenario::{Loaded, put};
use serde_json::Value;

/// Where the runs of a matrix are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Venue {
    /// On one database, each in a collection of its own.
    Database,
    /// Against a service that is there: it keeps what each run leaves.
    Service,
    /// Each on a server and a service of its own, started for it and filled.
    Anew,
    /// Each on a service of its own, on a server that stays, in a database of its own.
    Databases,
}

impl Venue {
    /// Where the runs of one cell are made.
    pub fn of(subject: &dyn Subject) -> Self {
        match subject.isolation() {
            Isolation::Collection => Self::Database,
            Isolation::Shared => Self::Service,
            Isolation::Fresh => Self::Anew,
            Isolation::Database { .. } => Self::Databases,
        }
    }

    /// Where the runs of all cells are made.
    ///
    /// # Errors
    /// When cells differ in it: they would not begin alike.
    pub fn of_all<'a>(subjects: impl IntoIterator<Item = &'a dyn Subject>) -> anyhow::Result<Self> {
        let mut venues = subjects.into_iter().map(Self::of);
        let first = venues.next().unwrap_or(Self::Database);
        match venues.find(|other| *other != first) {
            Some(other) => bail!(
                "matrix: some cells go to {}, others to {}: runs that do not begin alike cannot stand side by side; make two \
                 matrices of them",
                first.words(),
                other.words()
            ),
            None => Ok(first),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Database => "a database",
            Self::Service => "a service that is there",
            Self::Anew => "a service on a server that is started for it",
            Self::Databases => "a service on a server that stays",
        }
    }

    /// Whether what was written is read back.
    pub const fn is_audited(self) -> bool {
        matches!(self, Self::Database)
    }
}

/// Where a scenario says which collection it writes to.
const COLLECTION: &str = "collection";

/// What the runs of a side have to themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    /// A collection on a server that is gone with the run: this one.
    Collection(String),
    /// A collection of a server that stays: this one with the run's number.
    Collections(String),
    /// The database of a service that is started for the run, on a server that stays: this one with the run's number.
    Databases {
        /// Where the scenario says which.
        path: String,
        /// What the scenario says.
        base: String,
    },
    /// A service that is started with its server, or nothing at all.
    Nothing,
}

impl Own {
    /// What the runs on `subject` have.
    pub fn of(subject: &dyn Subject, loaded: &Loaded) -> Self {
        let collection = || loaded.scenario.collection.clone();
        match subject.isolation() {
            Isolation::Collection if subject.server().is_some_and(Choice::is_running) => {
                Self::Collections(collection())
            }
            Isolation::Collection => Self::Collection(collection()),
            Isolation::Database { path, name } => Self::Databases { path, base: name },
            Isolation::Shared | Isolation::Fresh => Self::Nothing,
        }
    }

    /// What run `number` has, if anything.
    pub fn name(&self, number: u32) -> Option<String> {
        match self {
            Self::Collection(name) => Some(name.clone()),
            Self::Collections(base) => Some(
                base.parse::<Namespace>().map_or_else(|_| base.clone(), |base| format!("{base}_{number}")),
            ),
            Self::Databases { base, .. } => Some(format!("{base}_{number}")),
            Self::Nothing => None,
        }
    }

    /// The same as `--set` takes it.
    pub fn word(&self, number: u32) -> Option<String> {
        let path = if let Self::Databases { path, .. } = self { path.as_str() } else { COLLECTION };
        Some(format!("{path}={}", self.name(number)?))
    }

    /// A run's scenario as if it had nothing to itself: two runs do not differ in that.
    pub fn taken_out(&self, scenario: &mut Value) {
        if let Self::Databases { path, base } = self {
            // A scenario without that place says nothing there that could differ.
            let _ = put(scenario, path, Value::from(base.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::system::{DatabaseAt, ManagedService, RunningService};
    use plimsoll_scenario::Staging;
    use serde_json::json;

    use super::*;
    use crate::matrix::cells::tests::{SCENARIO, loaded};

    fn staged(server: Choice) -> ManagedService {
        ManagedService { staging: serde_saphyr::from_str("telemetry: {}").unwrap(), server }
    }

    #[test]
    fn a_service_is_started_on_a_server_of_its_own_unless_one_was_named() {
        let (any, mongod) = (staged(Choice::Any), staged(Choice::Mongod));
        let anew: [&dyn Subject; 2] = [&any, &mongod];
        assert_eq!(Venue::of_all(anew).unwrap(), Venue::Anew);
        let named = staged(Choice::Uri("mongodb://h".into()));
        assert_eq!(Venue::of(&named), Venue::Databases);
        assert!(!Venue::Anew.is_audited());
    }

    #[test]
    fn cells_that_do_not_begin_alike_are_refused() {
        let (running, managed) = (RunningService("http://h".into()), staged(Choice::Any));
        let mixed: [&dyn Subject; 2] = [&running, &managed];
        let message = Venue::of_all(mixed).unwrap_err().to_string();
        assert!(message.contains("a service that is there, others to a service on a server"), "{message}");
    }

    fn own(subject: &dyn Subject) -> Own {
        Own::of(subject, &loaded(SCENARIO))
    }

    #[test]
    fn a_run_has_a_collection_a_database_or_nothing_to_itself() {
        let uri = || Choice::Uri("mongodb://h".into());
        let staging: Staging =
            serde_saphyr::from_str("telemetry: {settings: {database: {name: feeds}}}").unwrap();
        let staged = |server| ManagedService { staging: staging.clone(), server };
        let cases: [(Box<dyn Subject>, Option<&str>); 5] = [
            (Box::new(DatabaseAt(Choice::Any)), Some("collection=plimsoll.writes")),
            (Box::new(DatabaseAt(uri())), Some("collection=plimsoll.writes_7")),
            (Box::new(staged(uri())), Some("service.telemetry.settings.database.name=feeds_7")),
            (Box::new(staged(Choice::Any)), None),
            (Box::new(RunningService("http://h".into())), None),
        ];
        for (subject, word) in cases {
            assert_eq!(own(subject.as_ref()).word(7).as_deref(), word, "{subject:?}");
        }
        let mut scenario = json!({"service": {"telemetry": {"settings": {"database": {"name": "feeds_7"}}}}});
        own(&staged(uri())).taken_out(&mut scenario);
        assert_eq!(scenario["service"]["telemetry"]["settings"]["database"]["name"], "feeds");
    }
}
