//! Keeps one schedule of each definition running: that of the version that was deployed last.

use super::client::{Client, ClientError};
use crate::definition::{Definition, Version};
use crate::instance::{Body, Signal, StartRequest, State};
use crate::port::{Deployed, Record, Store, StoreError, Stored};

/// The reason of a schedule's cancellation by a later version.
const SUPERSEDED: &str = "a later version of the definition replaces this schedule";
/// Attempts while other processes deploy.
const ATTEMPTS_MAX: usize = 8;
/// Instances of one version of a schedule at most. A new one starts whenever this version becomes the latest again.
const LIVES_MAX: usize = 10_000;
/// Signals of an instance that are searched for a cancellation.
const SIGNALS_MAX: usize = 100;

/// The state of one version of a schedule.
enum Life {
    /// This instance runs.
    Open(String),
    /// A later version ended it. The next instance has this id.
    Superseded(String),
    /// No instance has run yet. The first one has this id.
    Unborn(String),
    /// The instance ended for another reason, such as an operator's cancellation, and stays ended.
    Over,
}

impl<S: Store> Client<S> {
    /// Lets the schedule of the latest version run, and no other one. Repeats while other processes deploy.
    pub(super) async fn align_schedules(&self, name: &str, now_ms: u64) -> Result<(), ClientError> {
        for _ in 0..ATTEMPTS_MAX {
            let definitions = self.store.definitions().await?;
            self.registry.learn(&definitions);
            self.align_once(&definitions, name, now_ms).await?;
            let later = self.store.definitions().await?;
            if latest(&later, name).map(version) == latest(&definitions, name).map(version) {
                return Ok(());
            }
        }
        let words = "other processes deploy at the same time: deploy again";
        Err(ClientError::Store(StoreError::Unavailable(words.into())))
    }

    async fn align_once(&self, definitions: &[Deployed], name: &str, now_ms: u64) -> Result<(), ClientError> {
        let wanted = latest(definitions, name).and_then(|latest| latest.definition.as_ref().ok());
        let wanted = wanted.and_then(Definition::schedule);
        let wanted = wanted.map(|schedule| schedule.version());
        let of_schedule = format!("{name}.schedule");
        let known: Vec<_> =
            definitions.iter().map(version).filter(|one| one.name == of_schedule).cloned().collect();
        for version in &known {
            if wanted.as_ref() != Some(version)
                && let Life::Open(id) = self.life(version).await?
            {
                let body = Body::Cancel { reason: SUPERSEDED.into() };
                self.send(Signal::new(id.clone(), format!("superseded:{id}"), body, now_ms)).await?;
            }
        }
        // If another version is the latest by now, the process that deployed that version starts its schedule.
        let Some(version) = wanted.filter(|version| known.last() == Some(version)) else { return Ok(()) };
        if let Life::Unborn(id) | Life::Superseded(id) = self.life(&version).await? {
            let definition = version.name;
            let input = serde_json::Value::Null;
            let request = StartRequest { id, definition, key: None, parent: None, depth: 0, input };
            self.begin(request, now_ms).await?;
        }
        Ok(())
    }

    /// The last instance of a version of a schedule.
    async fn life(&self, version: &Version) -> Stored<Life> {
        for number in 1..=LIVES_MAX {
            let id = id_of(version, number);
            let record = self.store.load(std::slice::from_ref(&id)).await?.into_iter().next().flatten();
            match record {
                None if number == 1 => return Ok(Life::Unborn(id)),
                None => return Ok(Life::Superseded(id)),
                Some(record) if record.status.is_ended() => {
                    if !was_superseded(&record) {
                        return Ok(Life::Over);
                    }
                }
                Some(_) if self.is_dying(&id).await? => {}
                Some(_) => return Ok(Life::Open(id)),
            }
        }
        Err(StoreError::Refused(
            format!("{} has run {LIVES_MAX} times: change its definition", version.name).into(),
        ))
    }

    /// Whether a cancellation waits for an instance.
    async fn is_dying(&self, instance: &str) -> Stored<bool> {
        let signals = self.store.signals_of(instance, SIGNALS_MAX).await?;
        Ok(signals.iter().any(|signal| matches!(signal.body, Body::Cancel { .. })))
    }
}

/// The version of a name that was deployed last.
fn latest<'a>(definitions: &'a [Deployed], name: &str) -> Option<&'a Deployed> {
    definitions.iter().rfind(|deployed| deployed.version.name == name)
}

const fn version(deployed: &Deployed) -> &Version {
    &deployed.version
}

fn id_of(version: &Version, number: usize) -> String {
    let first = format!("{}/{}", version.name, version.hash);
    if number == 1 { first } else { format!("{first}/{number}") }
}

fn was_superseded(record: &Record) -> bool {
    let error = State::decode(&record.body).ok().and_then(|state| state.error);
    error.is_some_and(|error| error.ends_with(SUPERSEDED))
}
