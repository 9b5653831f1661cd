//! Creates the directory of one broker: its properties, its data, its log and its lock.

use std::fs::File;
use std::path::{Path, PathBuf};

pub use plimsoll_process::home::Storage;
use plimsoll_process::home::{self, Error};

/// The prefix of temporary homes; the owner's process ID and six random characters follow.
const PREFIX: &str = "plimsoll-kafka-";

/// The home of a broker. Dropping a temporary home removes it.
#[derive(Debug)]
pub(super) struct Home(home::Home);

impl Home {
    /// Opens the home that `storage` names. For a temporary home, leftovers of dead owners are swept first.
    pub(super) fn open(storage: &Storage) -> Result<Self, Error> {
        Ok(Self(home::Home::open(storage, PREFIX, &std::env::temp_dir())?))
    }

    pub(super) fn properties(&self) -> PathBuf {
        self.path().join("server.properties")
    }

    pub(super) fn data(&self) -> PathBuf {
        self.0.data()
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path().join("broker.log")
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A second handle of the lock, which the broker inherits.
    pub(super) fn lock(&self) -> Result<File, Error> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_home_is_removed_and_a_named_one_stays() {
        let home = Home::open(&Storage::Temporary).unwrap();
        let path = home.path().to_owned();
        assert!(path.is_dir() && home.data().is_dir());
        drop(home);
        assert!(!path.exists());
        let parent = tempfile::tempdir().unwrap();
        let named = parent.path().join("kept");
        drop(Home::open(&Storage::At(named.clone())).unwrap());
        assert!(named.is_dir());
    }

    #[test]
    fn two_brokers_never_share_a_storage() {
        let parent = tempfile::tempdir().unwrap();
        let storage = Storage::At(parent.path().join("kept"));
        let _home = Home::open(&storage).unwrap();
        assert!(matches!(Home::open(&storage), Err(Error::Locked(_))));
    }
}
