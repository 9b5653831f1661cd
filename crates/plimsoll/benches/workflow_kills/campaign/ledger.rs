//! Keeps the acknowledged requests of the clients in a file, which outlives all processes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// One acknowledged request: a start, or a signal with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The instance.
    pub instance: String,
    /// The number of the signal; none for a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u64>,
}

/// A ledger that is open for writing.
#[derive(Debug)]
pub struct Ledger {
    file: Mutex<File>,
    entries: AtomicU64,
}

impl Ledger {
    /// A new, empty ledger.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let file = file.with_context(|| format!("make the ledger {}", path.display()))?;
        Ok(Self { file: Mutex::new(file), entries: AtomicU64::new(0) })
    }

    /// Adds an acknowledged request. The operating system has the line when the call returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&self, entry: &Entry) -> anyhow::Result<()> {
        let line = format!("{}\n", serde_json::to_string(entry)?);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).context("write the ledger")?;
        self.entries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The number of entries.
    pub fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }
}

/// The acknowledged signals of each started instance.
///
/// # Errors
/// The file cannot be read, or a line is no entry.
pub fn read(path: &Path) -> anyhow::Result<BTreeMap<String, Vec<u64>>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let mut instances: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in text.lines() {
        let entry: Entry = serde_json::from_str(line).context("read a line of the ledger")?;
        instances.entry(entry.instance).or_default().extend(entry.signal);
    }
    Ok(instances)
}
