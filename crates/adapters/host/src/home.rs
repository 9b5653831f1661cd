//! Creates the directory of one server: its data, its log, and a lock that its owner and the server hold.
//!
//! ```text
//! plimsoll-4711-x8Kq2z/
//!   lock             locked (flock) by the owner and, inherited, by the server
//!   data/            the server's data
//!   server.log       the server's output
//!   secantusd.toml   empty, so that the embedded server reads no other configuration
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub use plimsoll_process::home::Storage;
use plimsoll_process::home::{self, Error};

/// The prefix of temporary homes; the owner's process ID and six random characters follow.
const PREFIX: &str = "plimsoll-";

/// The home of a server. Dropping a temporary home removes it.
#[derive(Debug)]
pub(crate) struct Home(home::Home);

impl Home {
    /// Opens and locks the home that `storage` names. Temporary homes lie in `parent`; leftovers of dead
    /// owners there are swept first.
    pub(crate) fn open(storage: &Storage, parent: &Path) -> Result<Self, Error> {
        let home = Self(home::Home::open(storage, PREFIX, parent)?);
        let config = home.config();
        fs::write(&config, "").map_err(|source| Error::Io { path: config, source })?;
        Ok(home)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.data()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path().join("secantusd.toml")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("server.log")
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.0.is_temporary()
    }

    /// A second handle of the lock, which the server inherits.
    pub(crate) fn lock_for_server(&self) -> Result<File, Error> {
        self.0.lock()
    }

    /// Keeps the directory, temporary or not, and returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        self.0.keep()
    }

    /// Moves the home to `to`, by renaming it or, across file systems, by copying it. The server must be
    /// stopped.
    pub(crate) fn move_to(self, to: &Path) -> Result<PathBuf, Error> {
        self.0.move_to(to)
    }
}

/// Removes the temporary homes below `parent` whose owner and server are dead; returns their number. A home
/// that cannot be removed stays for a later sweep.
pub fn sweep(parent: &Path) -> usize {
    home::sweep(parent, PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_the_files_of_a_server_and_is_swept() {
        let parent = tempfile::tempdir().unwrap();
        let home = Home::open(&Storage::Temporary, parent.path()).unwrap();
        assert!(home.data().is_dir() && home.config().is_file());
        // The owner's process cannot exist: its ID is above the kernel's limit of 2^22.
        let left = parent.path().join("plimsoll-5000000-abcdef");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("lock"), "").unwrap();
        assert_eq!(sweep(parent.path()), 1);
        assert!(home.path().exists() && !left.exists());
    }
}
