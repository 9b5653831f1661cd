//! The directory of one server: its data, its log, and a lock that is held while its owner or the server lives.
//!
//! ```text
//! plimsoll-4711-x8Kq2z/
//!   lock             locked (flock) by the owner and, inherited, by the server
//!   data/            what the server stores
//!   server.log       what the server prints
//!   secantusd.toml   empty, so that the embedded server reads no other configuration
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How the names of temporary homes begin; the owner's process id and six random characters follow.
const PREFIX: &str = "plimsoll-";
const LOCK: &str = "lock";
/// How often, and at what distance, a lock is tried that is held: for half a second in all.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
const DATA: &str = "data";

/// Where a server keeps its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// A new directory below the system's directory for temporary files (`TMPDIR`), removed with the server. The next
    /// start removes it if its owner could not.
    #[default]
    Temporary,
    /// This directory, created if it is missing, kept. One that is not empty must be a home that Plimsoll made.
    At(PathBuf),
}

/// A home that is locked. Dropping it removes a temporary one.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    lock: File,
    temporary: bool,
}

/// A home could not be made, locked or moved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error(
        "{path:?} cannot be used for a server's storage ({source}): choose a directory that can be written to"
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another server runs on it.
    #[error("{0:?} is the storage of a server that is running: stop that one first (`plimsoll server stop`)")]
    Locked(PathBuf),
    /// It holds something that is not ours.
    #[error(
        "{0:?} holds files that are not a server storage of Plimsoll's: name an empty or a new directory"
    )]
    Foreign(PathBuf),
    /// There is something where the storage should go.
    #[error("{0:?} exists already: name a directory that does not exist yet")]
    Exists(PathBuf),
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

impl Home {
    /// Opens the home that `storage` names and locks it. `parent` is where temporary ones go; what dead owners left
    /// there is swept first.
    pub(crate) fn open(storage: &Storage, parent: &Path) -> Result<Self, Error> {
        match storage {
            Storage::Temporary => {
                sweep(parent);
                Home::temporary_in(parent)
            }
            Storage::At(path) => Home::at(path),
        }
    }

    fn temporary_in(parent: &Path) -> Result<Self, Error> {
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let path = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(io_at(parent))?.keep();
        let lock = lock(&path)?;
        let home = Home { path, lock, temporary: true };
        home.furnish()?;
        Ok(home)
    }

    fn at(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(io_at(path))?;
        let empty = fs::read_dir(path).map_err(io_at(path))?.next().is_none();
        if !empty && !path.join(DATA).is_dir() {
            return Err(Error::Foreign(path.to_owned()));
        }
        let path = path.canonicalize().map_err(io_at(path))?;
        let lock = lock(&path)?;
        let home = Home { path, lock, temporary: false };
        home.furnish()?;
        Ok(home)
    }

    fn furnish(&self) -> Result<(), Error> {
        let data = self.data();
        fs::create_dir_all(&data).map_err(io_at(&data))?;
        let config = self.config();
        fs::write(&config, "").map_err(io_at(&config))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path.join("secantusd.toml")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("server.log")
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// A second handle of the lock, for the server to inherit.
    pub(crate) fn lock_for_server(&self) -> Result<File, Error> {
        self.lock.try_clone().map_err(io_at(&self.path))
    }

    /// Leaves the directory where it is, temporary or not.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.temporary = false;
        self.path.clone()
    }

    /// Moves the home to `to`, by renaming or, across file systems, by copying. The server must be stopped.
    pub(crate) fn move_to(self, to: &Path) -> Result<PathBuf, Error> {
        if to.exists() {
            return Err(Error::Exists(to.to_owned()));
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(io_at(parent))?;
        }
        if fs::rename(&self.path, to).is_err() {
            copy(&self.path, to)?;
            fs::remove_dir_all(&self.path).map_err(io_at(&self.path))?;
        }
        self.keep();
        Ok(to.to_owned())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.temporary {
            // Nobody is left to tell; the next start sweeps it.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Locks a home's lock file. The file is closed on exec, so only who is given it inherits it.
fn lock(home: &Path) -> Result<File, Error> {
    let path = home.join(LOCK);
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io_at(&path))?;
    match try_lock(&file) {
        Ok(()) if is_still_at(&file, &path) => Ok(file),
        Ok(()) | Err(TryLockError::WouldBlock) => Err(Error::Locked(home.to_owned())),
        Err(TryLockError::Error(source)) => Err(Error::Io { path, source }),
    }
}

/// Tries more than once: a child that another thread of the last owner was just forking holds all its locks for some
/// milliseconds, until it becomes its program.
fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES {
        if let Ok(()) = file.try_lock() {
            return Ok(());
        }
        thread::sleep(LOCK_PAUSE);
    }
    file.try_lock()
}

/// Whether the path still names this file: a sweep may have taken it between the opening and the locking.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(named)) => (ours.dev(), ours.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Removes the temporary homes below `parent` whose owner and server are dead; says how many. What cannot be removed
/// stays for another time.
pub fn sweep(parent: &Path) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    entries
        .flatten()
        .filter(|entry| is_abandoned(&entry.path()))
        .filter(|entry| remove(&entry.path()))
        .count()
}

fn remove(home: &Path) -> bool {
    fs::remove_dir_all(home).is_ok()
}

/// A home is abandoned when the process in its name is dead and nobody holds its lock. The name alone would not do: the
/// server may outlive its owner for a moment. The lock alone would not do: a home that is being made has none yet.
fn is_abandoned(path: &Path) -> bool {
    let owner = path.file_name().and_then(|name| owner(name.to_str()?));
    let dead = owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists());
    dead && is_ours(path) && !is_locked(&path.join(LOCK))
}

/// Whether it is a home, or the empty beginning of one.
fn is_ours(path: &Path) -> bool {
    path.join(LOCK).is_file() || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn is_locked(path: &Path) -> bool {
    OpenOptions::new()
        .write(true)
        .open(path)
        .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The process id in the name of a temporary home.
fn owner(name: &str) -> Option<u32> {
    let (pid, random) = name.strip_prefix(PREFIX)?.split_once('-')?;
    (random.len() == 6).then(|| pid.parse().ok()).flatten()
}

/// Copies a directory of directories and files; links and other kinds are not expected and refused.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir(to).map_err(io_at(to))?;
    for entry in fs::read_dir(from).map_err(io_at(from))? {
        let path = entry.map_err(io_at(from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(io_at(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process id that no process has: above the kernel's greatest limit of 2^22.
    const DEAD: u32 = 5_000_000;

    fn parent() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn abandoned(parent: &Path) -> PathBuf {
        let path = parent.join(format!("{PREFIX}{DEAD}-abcdef"));
        fs::create_dir_all(path.join(DATA)).unwrap();
        fs::write(path.join(LOCK), "").unwrap();
        path
    }

    #[test]
    fn a_temporary_home_goes_with_its_owner() {
        let parent = parent();
        let home = Home::open(&Storage::Temporary, parent.path()).unwrap();
        let path = home.path().to_owned();
        assert!(home.data().is_dir());
        drop(home);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_owner_left_is_swept_by_the_next_start() {
        let parent = parent();
        let left = abandoned(parent.path());
        let home = Home::open(&Storage::Temporary, parent.path()).unwrap();
        assert!(!left.exists());
        assert!(home.path().exists());
    }

    #[test]
    fn a_sweep_spares_the_living_the_locked_and_the_strange() {
        let parent = parent();
        let living = Home::temporary_in(parent.path()).unwrap();
        let locked = abandoned(parent.path());
        let _lock = lock(&locked).unwrap();
        let strange = ["plimsoll-runs", "plimsoll-5000000-ab", "other-5000000-abcdef"];
        strange.iter().for_each(|name| fs::create_dir(parent.path().join(name)).unwrap());
        fs::create_dir_all(parent.path().join("plimsoll-5000000-strang/notes")).unwrap();
        assert_eq!(sweep(parent.path()), 0);
        assert!(living.path().exists() && locked.exists());
    }

    #[test]
    fn a_home_is_used_by_one_server_at_a_time() {
        let parent = parent();
        let path = parent.path().join("kept");
        let home = Home::at(&path).unwrap();
        assert!(matches!(Home::at(&path), Err(Error::Locked(_))));
        drop(home);
        assert!(Home::at(&path).is_ok());
    }

    #[test]
    fn a_directory_with_files_of_somebody_else_is_refused_and_untouched() {
        let parent = parent();
        fs::write(parent.path().join("thesis.txt"), "years of work").unwrap();
        assert!(matches!(Home::at(parent.path()), Err(Error::Foreign(_))));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_home_moves_with_what_is_in_it_and_never_over_something() {
        let parent = parent();
        let home = Home::temporary_in(parent.path()).unwrap();
        fs::write(home.data().join("table"), "rows").unwrap();
        let from = home.path().to_owned();
        let to = home.move_to(&parent.path().join("runs/storage")).unwrap();
        assert_eq!(fs::read_to_string(to.join("data/table")).unwrap(), "rows");
        assert!(!from.exists());
        let home = Home::temporary_in(parent.path()).unwrap();
        assert!(matches!(home.move_to(&to), Err(Error::Exists(_))));
    }

    #[test]
    fn a_copy_has_every_file() {
        let parent = parent();
        let from = parent.path().join("from");
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/c"), "deep").unwrap();
        copy(&from, &parent.path().join("to")).unwrap();
        assert_eq!(fs::read_to_string(parent.path().join("to/a/b/c")).unwrap(), "deep");
    }
}
