//! Locks a home: only the lock's owner may use its files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::{Error, LOCK, io_at};
use crate::procfs;

/// The number of attempts for a lock of another process: half a second in total.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Locks a home's lock file. The file is closed on exec, so only a child that gets it explicitly inherits it.
pub(super) fn take(home: &Path) -> Result<File, Error> {
    let path = home.join(LOCK);
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io_at(&path))?;
    match try_lock(&file) {
        Ok(()) if is_still_at(&file, &path) => Ok(file),
        Ok(()) | Err(TryLockError::WouldBlock) => Err(Error::Locked(home.to_owned())),
        Err(TryLockError::Error(source)) => Err(Error::Io { path, source }),
    }
}

/// Writes the start time of this process into a lock, because process IDs are reused.
pub(super) fn record_owner(mut lock: &File) -> io::Result<()> {
    let started = procfs::started(std::process::id()).map(|ticks| ticks.to_string());
    lock.write_all(started.unwrap_or_default().as_bytes())
}

/// The start time of a home's owner, in clock ticks since boot; `None` if the lock does not record it.
pub(super) fn owner_started(home: &Path) -> Option<u64> {
    fs::read_to_string(home.join(LOCK)).ok()?.parse().ok()
}

/// Whether the lock of a home is taken.
pub(super) fn is_held(home: &Path) -> bool {
    OpenOptions::new()
        .write(true)
        .open(home.join(LOCK))
        .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Locks a file for this process. It retries for half a second: a child that another thread of the last owner is forking shares
/// all its locks for some milliseconds, until exec.
///
/// # Errors
/// When another process has locked the file, or it cannot be locked.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 1..TRIES {
        if let Ok(()) = file.try_lock() {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    file.try_lock()
}

/// Whether the path still names this file: a sweep may have removed it between open and lock.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(named)) => (ours.dev(), ours.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_its_file_is_closed() {
        let home = tempfile::tempdir().unwrap();
        assert!(!is_held(home.path()));
        let lock = take(home.path()).unwrap();
        assert!(is_held(home.path()));
        drop(lock);
        take(home.path()).unwrap();
    }

    #[test]
    fn a_file_that_was_swept_away_is_not_a_lock() {
        let home = tempfile::tempdir().unwrap();
        let lock = take(home.path()).unwrap();
        let path = home.path().join(LOCK);
        assert!(is_still_at(&lock, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_still_at(&lock, &path));
        fs::write(&path, "").unwrap();
        assert!(!is_still_at(&lock, &path));
    }
}
