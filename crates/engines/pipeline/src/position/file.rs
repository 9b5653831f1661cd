//! Keeps positions in a file, replaced atomically by a new one at each write.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Claim, Partition, Position, PositionError, PositionStore};

/// Positions in a file, used by one process at a time.
#[derive(Debug)]
pub struct FilePositions {
    path: PathBuf,
    held: Mutex<Option<Held>>,
}

/// The locked file and its content.
#[derive(Debug)]
struct Held {
    kept: BTreeMap<Partition, Position>,
    /// The lock, held as long as this process uses the file.
    _lock: fs::File,
}

/// The content of the file, in format 1.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    format: u32,
    positions: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    topic: String,
    partition: u32,
    next: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Vec<u8>>,
}

const FORMAT: u32 = 1;

impl FilePositions {
    /// Positions in a file, which need not exist yet. No file is created or locked before the first claim, so that inspecting
    /// a pipeline has no effect.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is damaged.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, PositionError> {
        let path = path.into();
        read(&path)?;
        Ok(Self { path, held: Mutex::new(None) })
    }

    /// Runs `work` on the file, after locking it against other processes.
    fn with<T>(&self, work: impl FnOnce(&mut Held) -> Result<T, PositionError>) -> Result<T, PositionError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = match held.take() {
            Some(ours) => held.insert(ours),
            None => held.insert(self.hold()?),
        };
        work(held)
    }

    fn hold(&self) -> Result<Held, PositionError> {
        let unreadable = |reason: String| unavailable("read", &self.path, &reason);
        let lock = fs::OpenOptions::new().create(true).append(true).open(sibling(&self.path, "lock"));
        let lock = lock.map_err(|error| unreadable(error.to_string()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| unreadable("another process uses this file: end it, or name another file".into()))?;
        Ok(Held { kept: read(&self.path)?, _lock: lock })
    }

    fn write(&self, kept: &BTreeMap<Partition, Position>) -> std::io::Result<()> {
        let entries = kept.iter().map(|(partition, position)| Entry {
            topic: partition.topic.to_string(),
            partition: partition.index,
            next: position.next,
            token: position.token.as_ref().map(|token| token.to_vec()),
        });
        let form = Form { format: FORMAT, positions: entries.collect() };
        let new = sibling(&self.path, "new");
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(&form)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder =
            self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(folder)?.sync_all()
    }
}

/// The positions in a file; none if the file is missing.
fn read(path: &Path) -> Result<BTreeMap<Partition, Position>, PositionError> {
    let unreadable = |reason: String| unavailable("read", path, &reason);
    let form: Form = match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|error| unreadable(format!("it is damaged ({error}): put a whole copy in its place")))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    if form.format != FORMAT {
        return Err(unreadable(format!("it has format {}, and this program reads {FORMAT}", form.format)));
    }
    let kept = form.positions.into_iter().map(|entry| {
        let token = entry.token.map(Arc::from);
        (Partition::new(entry.topic, entry.partition), Position { next: entry.next, token })
    });
    Ok(kept.collect())
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn unavailable(verb: &'static str, path: &Path, reason: &str) -> PositionError {
    PositionError::Unavailable { verb, reason: format!("{}: {reason}", path.display()) }
}

impl PositionStore for FilePositions {
    fn claim(&self, partition: &Partition) -> Result<Claim, PositionError> {
        self.with(|held| Ok(Claim { position: held.kept.get(partition).cloned(), epoch: 0 }))
    }

    fn keep(&self, positions: &[(Partition, Position)]) -> Result<(), PositionError> {
        self.with(|held| {
            let mut next = held.kept.clone();
            for (partition, position) in positions {
                let known = next.entry(partition.clone()).or_default();
                if position.next >= known.next {
                    *known = position.clone();
                }
            }
            self.write(&next).map_err(|error| unavailable("written", &self.path, &error.to_string()))?;
            held.kept = next;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_and_never_go_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("positions.json");
        let (a, b) = (Partition::new("a", 0), Partition::new("b", 7));
        let token = Position { next: 4, token: Some(Arc::from(&b"\x01\xff"[..])) };
        let store = FilePositions::open(&path).unwrap();
        assert_eq!(store.claim(&a).unwrap(), Claim::default());
        store.keep(&[(a.clone(), Position::at(10)), (b.clone(), token.clone())]).unwrap();
        store.keep(&[(a.clone(), Position::at(3))]).unwrap();
        let words = FilePositions::open(&path).unwrap().claim(&a).unwrap_err().to_string();
        assert!(words.contains("another process uses this file"), "{words}");
        drop(store);
        let store = FilePositions::open(&path).unwrap();
        assert_eq!(store.claim(&a).unwrap().position, Some(Position::at(10)));
        assert_eq!(store.claim(&b).unwrap().position, Some(token));
    }

    #[test]
    fn opening_a_file_does_not_lock_or_create_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("positions.json");
        drop(FilePositions::open(&path).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let (running, partition) = (FilePositions::open(&path).unwrap(), Partition::new("a", 0));
        running.keep(&[(partition.clone(), Position::at(1))]).unwrap();
        drop(FilePositions::open(&path).unwrap());
        running.keep(&[(partition, Position::at(2))]).unwrap();
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("positions.json");
        fs::write(&path, "{\"format\":1,\"positions\":[").unwrap();
        let words = FilePositions::open(&path).unwrap_err().to_string();
        assert!(words.contains("damaged"), "{words}");
    }
}
