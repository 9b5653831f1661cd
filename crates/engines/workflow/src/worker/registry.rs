//! Holds compiled definitions. All workers and clients of a process share it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::definition::Definition;
use crate::program::{Problem, Program};

/// Compiled definitions by version.
#[derive(Debug, Default)]
pub struct Registry {
    programs: RwLock<Programs>,
}

#[derive(Debug, Default)]
struct Programs {
    by_hash: BTreeMap<String, Arc<Program>>,
    latest: BTreeMap<String, String>,
}

impl Registry {
    /// Adds a definition, which becomes the latest of its name.
    ///
    /// # Errors
    ///
    /// Every problem of the definition.
    pub fn add(&self, definition: &Definition) -> Result<Arc<Program>, Vec<Problem>> {
        let version = definition.version();
        let known = self.program(&version.hash);
        let program = known.map_or_else(|| Program::compile(definition).map(Arc::new), Ok)?;
        let mut programs = self.programs.write().unwrap_or_else(PoisonError::into_inner);
        programs.latest.insert(version.name, version.hash.clone());
        programs.by_hash.insert(version.hash, program.clone());
        Ok(program)
    }

    /// The program of a version.
    pub fn program(&self, hash: &str) -> Option<Arc<Program>> {
        self.programs.read().unwrap_or_else(PoisonError::into_inner).by_hash.get(hash).cloned()
    }

    /// The latest program of a name.
    pub fn latest(&self, name: &str) -> Option<Arc<Program>> {
        let programs = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        programs.latest.get(name).and_then(|hash| programs.by_hash.get(hash)).cloned()
    }
}
