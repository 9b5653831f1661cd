//! Installs PostgreSQL once into the cache.
//!
//! Maven fetches one exact version from Maven Central: an archive with the server and the libraries that it
//! needs. Its SHA-256 is listed in `files.txt`. `tar` unpacks the archive into a temporary directory, which
//! is renamed to its final name at the end.

use std::env::consts::{ARCH, OS};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_install::fetch::{self, Output, RunError, Stream};
use plimsoll_install::maven::{self, FILES, Form, MavenError, Project};
use plimsoll_install::{AtomicDir, Error, Lock, sibling};

/// The installed version of PostgreSQL.
pub const VERSION: &str = "15.18";
/// The Maven project that fetches the archive.
const PROJECT: Project<'_> =
    Project { pom: include_str!("pom.xml"), list: include_str!("files.txt"), form: Form::Unpacked };
/// The archive's name in the list.
const ARCHIVE: &str = "postgres-linux-x86_64.txz";
/// The directory of the unpacked archive, inside the directory of the fetch.
const UNPACKED: &str = "unpacked";

/// A step of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waits for another process that installs PostgreSQL.
    Waiting,
    /// Maven fetches the archive: 15 MB.
    Fetching,
    /// Unpacks the archive: 58 MB.
    Unpacking,
}

/// An installation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No archive exists for this machine.
    #[error(
        "PostgreSQL {VERSION} is installed on Linux on x86_64 only, and this is {OS} on {ARCH}: name an existing server with --postgres"
    )]
    Machine,
    /// The cache cannot be written.
    #[error(
        "{path:?} cannot be written ({source}): set PLIMSOLL_CACHE to a directory with 200 MB of free space"
    )]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The archive could not be fetched.
    #[error("PostgreSQL could not be fetched: {0}")]
    Fetch(MavenError),
    /// `tar` is missing.
    #[error("tar cannot be run ({0}): install it (Debian: `apt-get install tar xz-utils`)")]
    NoTar(io::Error),
    /// The archive could not be unpacked.
    #[error(
        "the archive of PostgreSQL could not be unpacked (is xz installed? Debian: `apt-get install xz-utils`):\n{0}"
    )]
    Unpack(String),
}

impl From<Error> for InstallError {
    fn from(Error { path, source }: Error) -> Self {
        Self::Cache { path, source }
    }
}

impl From<MavenError> for InstallError {
    fn from(error: MavenError) -> Self {
        match error {
            MavenError::Io(error) => error.into(),
            other => Self::Fetch(other),
        }
    }
}

/// The directory of the server in the cache at `cache`, installed or not.
pub(super) fn directory(cache: &Path) -> PathBuf {
    cache.join(format!("postgres-{VERSION}"))
}

/// Whether the server is installed. An interrupted installation does not count.
pub fn is_installed(cache: &Path) -> bool {
    directory(cache).is_dir()
}

/// Installs the server into the cache at `cache` unless it is installed. Takes some seconds and calls `progress` at every step. Two
/// concurrent calls fetch once.
///
/// # Errors
/// [`InstallError`].
pub fn install(cache: &Path, progress: &mut dyn FnMut(Step)) -> Result<(), InstallError> {
    if (OS, ARCH) != ("linux", "x86_64") {
        return Err(InstallError::Machine);
    }
    install_with("mvn".into(), cache, progress)
}

fn install_with(maven: OsString, cache: &Path, progress: &mut dyn FnMut(Step)) -> Result<(), InstallError> {
    let _lock = Lock::take(cache, "postgres.lock", || progress(Step::Waiting))?;
    if is_installed(cache) {
        return Ok(());
    }
    let target = directory(cache);
    let (partial, log) = (AtomicDir::new(&target)?, sibling(&target, "log"));
    progress(Step::Fetching);
    maven::fetch(maven, PROJECT, partial.path(), &log, &mut || progress(Step::Unpacking))?;
    unpack(partial.path(), &log)?;
    Ok(partial.commit_part(UNPACKED)?)
}

fn unpack(partial: &Path, log: &Path) -> Result<(), InstallError> {
    let target = partial.join(UNPACKED);
    std::fs::create_dir(&target).map_err(Error::at(&target))?;
    let mut tar = Command::new("tar");
    tar.arg("-xJf").arg(partial.join(FILES).join(ARCHIVE)).arg("-C").arg(target);
    let ignore = &mut |_: Output<'_>| {};
    let finished = fetch::run(tar, Stream::Stderr, Some(log), ignore).map_err(|error| match error {
        RunError::Program(source) => InstallError::NoTar(source),
        RunError::Log(error) => error.into(),
    })?;
    if finished.status.success() { Ok(()) } else { Err(InstallError::Unpack(finished.tail)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_pinned_by_its_digest_and_the_version_of_the_project() {
        assert!(PROJECT.pom.contains(&format!("<version>{VERSION}.0</version>")));
        let (sum, name) = PROJECT.list.trim_end().split_once("  ").unwrap();
        assert_eq!((sum.len(), name), (64, ARCHIVE));
    }

    #[test]
    fn without_maven_the_error_says_how_to_get_it_and_nothing_is_installed() {
        let cache = tempfile::tempdir().unwrap();
        let error = install_with("/nowhere/mvn".into(), cache.path(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("install Maven"), "{error}");
        assert!(!is_installed(cache.path()));
    }

    #[test]
    fn an_archive_that_cannot_be_unpacked_is_reported_with_the_remedy() {
        let partial = tempfile::tempdir().unwrap();
        std::fs::create_dir(partial.path().join(FILES)).unwrap();
        std::fs::write(partial.path().join(FILES).join(ARCHIVE), "no archive").unwrap();
        let error = unpack(partial.path(), &partial.path().join("log")).unwrap_err().to_string();
        assert!(error.contains("xz-utils"), "{error}");
    }
}
