//! Holds compiled definitions. All workers and clients of a process share it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::definition::{Definition, Version};
use crate::port::{Deployed, Store, Stored};
use crate::program::{Problem, Program};

/// The shortest time between two questions for definitions of other processes.
const REFRESH_MS: u64 = 1_000;

/// Compiled definitions by version.
#[derive(Debug, Default)]
pub struct Registry {
    programs: RwLock<Programs>,
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Programs {
    /// The programs, or the reasons why this program cannot use the definitions.
    by_hash: BTreeMap<String, Result<Arc<Program>, String>>,
    /// The hash of the latest version of each name. This program may be unable to use that version.
    latest: BTreeMap<String, String>,
    /// The definitions of the longest list that was learnt: a shorter one is older.
    learnt: usize,
}

/// The last question for definitions that other processes have deployed.
#[derive(Debug, Default)]
struct Asked {
    at_ms: Option<u64>,
    deployed: Option<u64>,
}

impl Registry {
    /// Adds a definition, which becomes the latest of its name.
    ///
    /// # Errors
    ///
    /// Every problem of the definition.
    pub fn add(&self, definition: &Definition) -> Result<Arc<Program>, Vec<Problem>> {
        let known = self.program(&definition.version().hash);
        let program = known.map_or_else(|| Program::compile(definition).map(Arc::new), Ok)?;
        self.write().insert(&program.version, Ok(program.clone()));
        Ok(program)
    }

    /// Takes over the definitions of a store, in its order. Notes the reason if this program cannot read or compile one.
    pub fn learn(&self, definitions: &[Deployed]) {
        let program =
            |deployed: &Deployed| self.program(&deployed.version.hash).map_or_else(|| compiled(deployed), Ok);
        let all: Vec<_> = definitions.iter().map(|deployed| (&deployed.version, program(deployed))).collect();
        let mut programs = self.write();
        if definitions.len() >= programs.learnt {
            programs.learnt = definitions.len();
            all.into_iter().for_each(|(version, program)| programs.insert(version, program));
        }
    }

    /// Loads definitions that other processes have deployed, if there are any. Asks the store once a second at most.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub(super) async fn refresh(&self, store: &impl Store, now_ms: u64) -> Stored<()> {
        if self.may_ask(now_ms) { self.refresh_now(store).await } else { Ok(()) }
    }

    /// Whether a question is allowed now. If so, it counts as the last question.
    fn may_ask(&self, now_ms: u64) -> bool {
        let is_recent = |at_ms: u64| (at_ms..at_ms.saturating_add(REFRESH_MS)).contains(&now_ms);
        let mut asked = self.asked();
        let may = !asked.at_ms.is_some_and(is_recent);
        if may {
            asked.at_ms = Some(now_ms);
        }
        may
    }

    /// The same, regardless of the last question.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn refresh_now(&self, store: &impl Store) -> Stored<()> {
        let deployed = store.deployed().await?;
        if self.asked().deployed == Some(deployed) {
            return Ok(());
        }
        self.learn(&store.definitions().await?);
        self.asked().deployed = Some(deployed);
        Ok(())
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Programs> {
        self.programs.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program of a version.
    pub fn program(&self, hash: &str) -> Option<Arc<Program>> {
        self.read().by_hash.get(hash).and_then(|program| program.as_ref().ok()).cloned()
    }

    /// The reason why this program cannot use a stored version, with the remedy. `None` if it can, or the version is unknown.
    pub fn fault(&self, hash: &str) -> Option<String> {
        self.read().by_hash.get(hash).and_then(|program| program.as_ref().err()).cloned()
    }

    /// The same, for the latest version of a name.
    pub fn latest_fault(&self, name: &str) -> Option<String> {
        let hash = self.read().latest.get(name).cloned();
        hash.and_then(|hash| self.fault(&hash))
    }

    /// The latest program of a name. `None` if the name is unknown, or this program cannot use its latest version: an earlier
    /// version does not replace it.
    pub fn latest(&self, name: &str) -> Option<Arc<Program>> {
        let hash = self.read().latest.get(name).cloned();
        hash.and_then(|hash| self.program(&hash))
    }

    fn read(&self) -> RwLockReadGuard<'_, Programs> {
        self.programs.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The program of a stored definition, or the reason why it has none.
fn compiled(deployed: &Deployed) -> Result<Arc<Program>, String> {
    let refusal = |problems: Vec<Problem>| {
        let first = problems.first().map(|problem| format!(" ({}: {problem})", problem.path));
        let first = first.unwrap_or_default();
        format!(
            "this program refuses it{first}: deploy a corrected version, or use a process that accepts it"
        )
    };
    let definition = deployed.definition.as_ref().map_err(Clone::clone)?;
    Program::compile(definition).map(Arc::new).map_err(refusal)
}

impl Programs {
    /// Adds a version, which becomes the latest of its name.
    fn insert(&mut self, version: &Version, program: Result<Arc<Program>, String>) {
        self.latest.insert(version.name.clone(), version.hash.clone());
        self.by_hash.insert(version.hash.clone(), program);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::memory::{Memory, Removal};

    fn versions() -> [Definition; 2] {
        ["f", "g"].map(|function| Definition::new("a").service(function))
    }

    fn latest(registry: &Registry) -> Option<String> {
        registry.latest("a").map(|program| program.version.hash.clone())
    }

    #[test]
    fn a_version_of_another_process_is_seen_a_second_later_although_the_clock_goes_back() {
        let (store, registry, [old, new]) =
            (Memory::new(1, Removal::WithCommit), Registry::default(), versions());
        let deploy = |definition: &Definition| {
            store.deploy(std::slice::from_ref(definition), 0).now_or_never().unwrap().unwrap();
        };
        let refresh = |now_ms| registry.refresh(&store, now_ms).now_or_never().unwrap().unwrap();
        deploy(&old);
        refresh(10_000);
        assert_eq!(latest(&registry), Some(old.version().hash));
        deploy(&new);
        refresh(10_000 + REFRESH_MS - 1);
        assert_eq!(latest(&registry), Some(old.version().hash), "the store is not asked all the time");
        refresh(500);
        assert_eq!(latest(&registry), Some(new.version().hash));
    }

    #[test]
    fn an_old_list_of_definitions_does_not_change_the_latest_version() {
        let (registry, [old, new]) = (Registry::default(), versions());
        let deployed = |definition: &Definition| Deployed {
            version: definition.version(),
            definition: Ok(definition.clone()),
        };
        registry.learn(&[deployed(&old), deployed(&new)]);
        registry.learn(&[deployed(&old)]);
        assert_eq!(latest(&registry), Some(new.version().hash));
    }

    #[test]
    fn a_stored_definition_runs_on_although_a_new_one_like_it_is_refused() {
        let registry = Registry::default();
        for http in [
            json!({"url": "http://h/", "headers": {"te": "trailers", "Host": "b", "idempotency-key": "k"}}),
            json!({"url": "http://h:0/"}),
        ] {
            let definition = json!({"name": "a", "steps": [{"http": http}]});
            let definition: Definition = serde_json::from_value(definition).unwrap();
            assert!(Program::compile_new(&definition).is_err());
            let deployed = Deployed { version: definition.version(), definition: Ok(definition) };
            registry.learn(std::slice::from_ref(&deployed));
            assert_eq!(latest(&registry), Some(deployed.version.hash));
        }
    }

    #[test]
    fn the_reason_of_an_unusable_definition_is_kept() {
        for (text, words) in [
            (
                r#"{"name": "a", "steps": [{"dance": {}}]}"#,
                "this program cannot read it (unknown variant `dance`",
            ),
            (r#"{"name": "a", "steps": ["#, "restore the store and restart its processes, or deploy another"),
            (
                r#"{"name": "a", "steps": [{"timer": {}}]}"#,
                "this program refuses it (steps[0].timer: a timer needs",
            ),
        ] {
            let version = Version { name: "a".into(), hash: "h".into() };
            let registry = Registry::default();
            registry.learn(&[Deployed::decode(version, text.as_bytes())]);
            let fault = registry.latest_fault("a").unwrap();
            assert!(fault.contains(words), "{fault}");
            assert!(registry.latest("a").is_none() && registry.fault("other").is_none());
        }
    }
}
