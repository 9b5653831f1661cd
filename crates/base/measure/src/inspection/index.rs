//! Describes an index and its properties.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its keys and their order as JSON, such as `{"at":-1}`.
    pub keys: String,
    /// Whether no two documents may share a key.
    #[serde(default)]
    pub unique: bool,
    /// Whether documents without the keys are left out.
    #[serde(default)]
    pub sparse: bool,
    /// Whether queries do not see it.
    #[serde(default)]
    pub hidden: bool,
    /// Seconds after which documents expire.
    pub expire_after_s: Option<f64>,
    /// Which documents it holds, as JSON; all if absent.
    pub partial: Option<String>,
    /// Bytes on disk.
    pub bytes: Option<u64>,
}

impl Index {
    /// Name, keys and properties: `at_1 {"at":1}, unique`.
    pub fn in_words(&self) -> String {
        let words = [format!("{} {}", self.name, self.keys)];
        words.into_iter().chain(self.properties()).collect::<Vec<_>>().join(", ")
    }

    /// Its properties, in words.
    pub fn properties(&self) -> Vec<String> {
        let flags = [(self.unique, "unique"), (self.sparse, "sparse"), (self.hidden, "hidden")];
        let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_owned());
        let expiry = self.expire_after_s.map(|seconds| format!("expires after {seconds} s"));
        let partial = self.partial.as_ref().map(|filter| format!("only {filter}"));
        flags.chain(expiry).chain(partial).collect()
    }
}
