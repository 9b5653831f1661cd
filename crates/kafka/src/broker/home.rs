//! The directory of one broker: its properties, its data and its log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// How the names of temporary homes begin; the owner's process id and six random characters follow.
const PREFIX: &str = "plimsoll-kafka-";

/// Where a broker keeps its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// A new directory below the system's directory for temporary files, removed with the broker. The next start removes
    /// it if its owner could not.
    #[default]
    Temporary,
    /// This directory, created if it is missing, kept.
    At(PathBuf),
}

/// A home. Dropping it removes a temporary one.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    _temporary: Option<TempDir>,
}

impl Home {
    /// Opens the home that `storage` names; what dead owners left beside a temporary one is swept first.
    pub(super) fn open(storage: &Storage) -> io::Result<Self> {
        match storage {
            Storage::At(path) => {
                fs::create_dir_all(path)?;
                Ok(Self { path: path.canonicalize()?, _temporary: None })
            }
            Storage::Temporary => {
                let parent = std::env::temp_dir();
                sweep(&parent);
                let prefix = format!("{PREFIX}{}-", std::process::id());
                let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent)?;
                Ok(Self { path: made.path().to_owned(), _temporary: Some(made) })
            }
        }
    }

    pub(super) fn properties(&self) -> PathBuf {
        self.path.join("server.properties")
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("broker.log")
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the temporary homes below `parent` whose owner is dead: a broker dies with its owner.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let dead = entries.map(|entry| entry.path()).filter(|path| owner(path).is_some_and(|pid| !is_alive(pid)));
    for path in dead {
        // What cannot be removed stays for another time.
        let _ = fs::remove_dir_all(path);
    }
}

/// The process id in the name of a temporary home.
fn owner(path: &Path) -> Option<u32> {
    let (pid, random) = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    (random.len() == 6).then(|| pid.parse().ok()).flatten()
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_takes_the_dead_and_spares_the_living_and_the_strange() {
        let parent = tempfile::tempdir().unwrap();
        // Above the kernel's greatest process id.
        let dead = parent.path().join("plimsoll-kafka-5000000-abcdef");
        let living = parent.path().join(format!("plimsoll-kafka-{}-abcdef", std::process::id()));
        let strange = parent.path().join("plimsoll-kafka-5000000-notes-of-mine");
        [&dead, &living, &strange].iter().for_each(|path| fs::create_dir(path).unwrap());
        sweep(parent.path());
        assert!(!dead.exists());
        assert!(living.exists() && strange.exists());
    }

    #[test]
    fn a_temporary_home_goes_and_a_named_one_stays() {
        let home = Home::open(&Storage::Temporary).unwrap();
        let path = home.path().to_owned();
        assert!(path.is_dir());
        drop(home);
        assert!(!path.exists());
        let parent = tempfile::tempdir().unwrap();
        let named = parent.path().join("kept");
        drop(Home::open(&Storage::At(named.clone())).unwrap());
        assert!(named.is_dir());
    }
}
