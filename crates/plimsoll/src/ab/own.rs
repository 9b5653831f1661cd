//! What a run of a comparison has to itself, so that it begins like the others: a collection, or the database of its
//! service.

use serde_json::Value;

use plimsoll_deployment::Namespace;

use crate::matrix::venue::Venue;
use plimsoll_run::system::Subject;
use plimsoll_scenario::{Loaded, put};

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
        path: &'static str,
        /// What the scenario says.
        base: String,
    },
    /// A service that is started with its server, or nothing at all.
    Nothing,
}

impl Own {
    /// What the runs on `subject` have.
    pub fn of(subject: &Subject, loaded: &Loaded) -> Self {
        let collection = || loaded.scenario.collection.clone();
        match (Venue::of(subject), subject) {
            (Venue::Database, Subject::Database(choice)) if choice.is_running() => {
                Self::Collections(collection())
            }
            (Venue::Database, _) => Self::Collection(collection()),
            (Venue::Databases, Subject::Staged(staging, _)) => {
                Self::Databases { path: staging.database_path(), base: staging.database().to_owned() }
            }
            _ => Self::Nothing,
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
        let path = if let Self::Databases { path, .. } = self { path } else { COLLECTION };
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
    use plimsoll_run::server_provisioning::Choice;
    use serde_json::json;

    use super::*;
    use crate::matrix::cells::tests::{SCENARIO, loaded};
    use plimsoll_scenario::Staging;

    fn own(subject: &Subject) -> Own {
        Own::of(subject, &loaded(SCENARIO))
    }

    #[test]
    fn a_run_has_a_collection_a_database_or_nothing_to_itself() {
        let uri = || Choice::Uri("mongodb://h".into());
        let staging: Staging =
            serde_saphyr::from_str("telemetry: {settings: {database: {name: feeds}}}").unwrap();
        let staged = |choice| Subject::Staged(Box::new(staging.clone()), choice);
        for (subject, word) in [
            (Subject::Database(Choice::Any), Some("collection=plimsoll.writes")),
            (Subject::Database(uri()), Some("collection=plimsoll.writes_7")),
            (staged(uri()), Some("service.telemetry.settings.database.name=feeds_7")),
            (staged(Choice::Any), None),
            (Subject::Service("http://h".into()), None),
        ] {
            assert_eq!(own(&subject).word(7).as_deref(), word, "{subject:?}");
        }
        let mut scenario = json!({"service": {"telemetry": {"settings": {"database": {"name": "feeds_7"}}}}});
        own(&staged(uri())).taken_out(&mut scenario);
        assert_eq!(scenario["service"]["telemetry"]["settings"]["database"]["name"], "feeds");
    }
}
