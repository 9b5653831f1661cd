//! Creates the directory of one program: its data, and a lock that its owner and the program share.
//!
//! ```text
//! plimsoll-4711-x8Kq2z/
//!   lock    locked (flock) by the owner and, inherited, by the program; holds the start of a temporary home's owner
//!   data/   the program's data
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

mod lock;
mod sweep;

pub use lock::try_lock;
pub use sweep::sweep;

const LOCK: &str = "lock";
const DATA: &str = "data";

/// The location of a program's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// A new directory below the system's directory for temporary files (`TMPDIR`), removed with the program. The next start
    /// removes it if its owner could not.
    #[default]
    Temporary,
    /// This directory, created if it is missing, never removed. If it is not empty, it must be a home that Plimsoll created.
    At(PathBuf),
}

/// A locked home. Dropping it removes a temporary one.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    lock: File,
    temporary: bool,
}

/// A home could not be created, locked or moved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("{path:?} cannot be used for storage ({source}): choose a directory that can be written to")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another program uses the directory.
    #[error("{0:?} is the storage of a running program: stop it first (a server: `plimsoll server stop`)")]
    Locked(PathBuf),
    /// The directory contains foreign files.
    #[error("{0:?} holds files that Plimsoll did not create: name an empty or a new directory")]
    Foreign(PathBuf),
    /// The target exists.
    #[error("{0:?} exists already: name a directory that does not exist yet")]
    Exists(PathBuf),
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

impl Home {
    /// Opens and locks the home that `storage` names. Temporary homes are created below `parent`, named `prefix`, the owner's
    /// process ID and six random characters. Leftovers of dead owners are removed first.
    ///
    /// # Errors
    /// When the home cannot be created or locked; existing files are untouched.
    pub fn open(storage: &Storage, prefix: &str, parent: &Path) -> Result<Self, Error> {
        match storage {
            Storage::Temporary => {
                sweep(parent, prefix);
                Self::temporary(prefix, parent)
            }
            Storage::At(path) => Self::at(path),
        }
    }

    fn temporary(prefix: &str, parent: &Path) -> Result<Self, Error> {
        let prefix = format!("{prefix}{}-", std::process::id());
        let path = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(io_at(parent))?.keep();
        let lock = lock::take(&path)?;
        lock::record_owner(&lock).map_err(io_at(&path))?;
        Self { path, lock, temporary: true }.furnished()
    }

    fn at(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(io_at(path))?;
        let empty = fs::read_dir(path).map_err(io_at(path))?.next().is_none();
        if !empty && !path.join(DATA).is_dir() {
            return Err(Error::Foreign(path.to_owned()));
        }
        let path = path.canonicalize().map_err(io_at(path))?;
        let lock = lock::take(&path)?;
        Self { path, lock, temporary: false }.furnished()
    }

    fn furnished(self) -> Result<Self, Error> {
        let data = self.data();
        fs::create_dir_all(&data).map_err(io_at(&data))?;
        Ok(self)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory for the program's data.
    pub fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// Whether the home is removed with its owner.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// A second handle of the lock, for the program to inherit.
    ///
    /// # Errors
    /// When this process has too many open files.
    pub fn lock(&self) -> Result<File, Error> {
        self.lock.try_clone().map_err(io_at(&self.path))
    }

    /// Keeps the directory, temporary or not.
    pub fn keep(mut self) -> PathBuf {
        self.temporary = false;
        self.path.clone()
    }

    /// Moves the home to `to`, by renaming or, across file systems, by copying. The program must be stopped.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Io`]: a temporary home is then removed.
    pub fn move_to(self, to: &Path) -> Result<PathBuf, Error> {
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
            // A drop cannot return an error; the next start sweeps the directory.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Copies a directory of directories and files. File systems that can share blocks between files do so.
///
/// # Errors
/// [`Error::Io`].
pub fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(io_at(to))?;
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

    const PREFIX: &str = "plimsoll-";

    fn parent() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_temporary_home_is_removed_with_its_owner() {
        let parent = parent();
        let home = Home::open(&Storage::Temporary, PREFIX, parent.path()).unwrap();
        let path = home.path().to_owned();
        assert!(home.data().is_dir());
        drop(home);
        assert!(!path.exists());
    }

    #[test]
    fn the_next_start_removes_the_leftovers_of_a_dead_owner() {
        let parent = parent();
        // Above the kernel's greatest process id.
        let left = parent.path().join("plimsoll-5000000-abcdef");
        fs::create_dir_all(left.join(DATA)).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        let home = Home::open(&Storage::Temporary, PREFIX, parent.path()).unwrap();
        assert!(!left.exists());
        assert!(home.path().exists());
    }

    #[test]
    fn a_home_is_used_by_one_program_at_a_time() {
        let parent = parent();
        let path = parent.path().join("kept");
        let home = Home::at(&path).unwrap();
        assert!(matches!(Home::at(&path), Err(Error::Locked(_))));
        drop(home);
        assert!(Home::at(&path).is_ok());
    }

    #[test]
    fn a_directory_with_foreign_files_is_refused_and_untouched() {
        let parent = parent();
        fs::write(parent.path().join("thesis.txt"), "years of work").unwrap();
        assert!(matches!(Home::at(parent.path()), Err(Error::Foreign(_))));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_home_moves_with_its_content_and_never_over_an_existing_path() {
        let parent = parent();
        let home = Home::temporary(PREFIX, parent.path()).unwrap();
        fs::write(home.data().join("table"), "rows").unwrap();
        let from = home.path().to_owned();
        let to = home.move_to(&parent.path().join("runs/storage")).unwrap();
        assert_eq!(fs::read_to_string(to.join("data/table")).unwrap(), "rows");
        assert!(!from.exists());
        let home = Home::temporary(PREFIX, parent.path()).unwrap();
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
