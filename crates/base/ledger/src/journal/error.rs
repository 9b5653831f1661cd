//! Names the failures of reading and writing the ledger.

use std::io;
use std::path::{Path, PathBuf};

use crate::numbers::Allocation;

/// The failure of writing or reading the ledger.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk is full.
    #[error(
        "no space left for the ledger in {}: free {need_mb} MB or choose another place with --out",
        dir.display()
    )]
    Full {
        /// The directory of the ledger.
        dir: PathBuf,
        /// The largest space that the ledger may need, in megabytes.
        need_mb: u64,
    },
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}; check the path and its permissions", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The directory already holds a ledger.
    #[error("{} holds a ledger already: choose another place with --out", dir.display())]
    Occupied {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory holds no ledger.
    #[error("{} holds no ledger: give the directory of a run", dir.display())]
    Absent {
        /// The directory.
        dir: PathBuf,
    },
    /// The run did not end regularly, or its ledger is still in journals.
    #[error("the run in {} did not save its ledger: recover it from the journals", dir.display())]
    Unsaved {
        /// The directory.
        dir: PathBuf,
    },
    /// A required file of the ledger is missing.
    #[error("{} is missing, and without it the sent documents are unknown: restore it", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file has another version of the format.
    #[error(
        "{} has version {version} of the ledger's format: read it with the version that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version found.
        version: String,
    },
    /// The content of the file is damaged.
    #[error("{} is damaged ({what}): restore it from a copy, or repeat the run", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The mismatch.
        what: String,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Error {
        Error::Damaged { path: path.to_owned(), what: what.into() }
    }

    /// An error of writing; a full disk has its own variant.
    pub(crate) fn write(dir: &Path, allocation: &Allocation, path: &Path, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::Full { dir: dir.to_owned(), need_mb: need_mb(allocation) }
            }
            _ => Error::io("write", path, source),
        }
    }
}

/// The space for journals and saved ledger together: three times two bits a document. Without a limit, enough for 100 million
/// documents.
fn need_mb(allocation: &Allocation) -> u64 {
    let documents = allocation.limit().unwrap_or(100_000_000);
    (documents / 4 * 3).div_ceil(1_000_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_names_the_space_to_free() {
        let allocation = Allocation::new(1000, 4, Some(100_000_000)).unwrap();
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = Error::write(Path::new("/out/run"), &allocation, Path::new("/out/run/x"), full);
        assert_eq!(
            error.to_string(),
            "no space left for the ledger in /out/run: free 75 MB or choose another place with --out"
        );
    }

    #[test]
    fn another_error_names_the_file() {
        let allocation = Allocation::new(1000, 4, None).unwrap();
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Error::write(Path::new("/out"), &allocation, Path::new("/out/x"), denied);
        assert!(error.to_string().starts_with("cannot write /out/x: "), "{error}");
    }
}
