//! Installs a broker, or another Java program that a benchmark needs, once into the cache.
//!
//! Maven fetches one exact version from Maven Central. Every file must be listed in `jars.txt` with its
//! SHA-256. The files are fetched into a directory beside the target, which is then renamed, so an
//! installation is always complete.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use plimsoll_install::maven::{self, FILES, Form, MavenError, Project};
use plimsoll_install::{AtomicDir, Error, Lock, sibling};
use plimsoll_measure::clock;

/// The installed version of Apache Kafka.
pub const VERSION: &str = "4.1.0";
/// The broker's files.
const BROKER: Jars<'_> = Jars {
    what: "the broker",
    directory: "kafka-4.1.0",
    project: include_str!("pom.xml"),
    list: include_str!("jars.txt"),
};
/// The lock file of all Maven installations in the cache.
const LOCK: &str = "kafka.lock";

/// A set of files that Maven fetches once into the cache.
#[derive(Clone, Copy, Debug)]
pub struct Jars<'a> {
    /// The name of the files in errors: `the broker`.
    pub what: &'a str,
    /// Their directory in the cache; the version is part of its name.
    pub directory: &'a str,
    /// The text of a `pom.xml` that depends on the files.
    pub project: &'a str,
    /// The expected files: SHA-256 and name, one a line.
    pub list: &'a str,
}

/// The progress of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current step.
    pub step: Step,
    /// Nanoseconds since the start.
    pub elapsed_ns: u64,
}

/// A step of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waits for another process that installs the files.
    Waiting,
    /// Maven fetches the files: for the broker 54 MB, about a minute.
    Fetching,
    /// Compares the checksums.
    Checking,
    /// Finished.
    Installed,
}

/// An installation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
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
    /// Maven is missing.
    #[error(
        "mvn cannot be run ({0}): install Maven (Debian: `apt-get install maven`), or name an existing broker"
    )]
    NoMaven(io::Error),
    /// Maven failed.
    #[error("{what} could not be fetched ({status}): is there a network? The last lines of {log:?}:\n{tail}")]
    Fetch {
        /// The files.
        what: String,
        /// Maven's exit status.
        status: ExitStatus,
        /// The log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The fetched files differ from the expected files.
    #[error("Maven fetched unexpected files for {what} ({how}): try again, or configure another mirror")]
    Altered {
        /// The files.
        what: String,
        /// The file that differs, with the difference.
        how: String,
    },
}

impl From<Error> for InstallError {
    fn from(Error { path, source }: Error) -> Self {
        Self::Cache { path, source }
    }
}

impl InstallError {
    fn of(error: MavenError, what: &str, log: PathBuf) -> Self {
        let what = what.to_owned();
        match error {
            MavenError::Io(error) => error.into(),
            MavenError::NoMaven(source) => Self::NoMaven(source),
            MavenError::Failed { status, tail } => Self::Fetch { what, status, log, tail },
            MavenError::Altered(how) => Self::Altered { what, how: how.to_string() },
        }
    }
}

/// The directory of the broker's files in the cache at `cache`, installed or not.
pub fn directory(cache: &Path) -> PathBuf {
    BROKER.directory(cache)
}

/// Whether the broker is installed. An interrupted installation does not count.
pub fn is_installed(cache: &Path) -> bool {
    BROKER.is_installed(cache)
}

/// Installs the broker into the cache at `cache` unless it is installed, and returns the directory of its
/// files. Takes about a minute and calls `progress` at every step. Two concurrent calls fetch once.
///
/// # Errors
/// [`InstallError`].
pub fn install(cache: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, InstallError> {
    BROKER.install(cache, progress)
}

impl Jars<'_> {
    /// The directory of the files in the cache at `cache`, installed or not.
    pub fn directory(&self, cache: &Path) -> PathBuf {
        cache.join(self.directory)
    }

    /// Whether the files are installed. An interrupted installation does not count.
    pub fn is_installed(&self, cache: &Path) -> bool {
        self.directory(cache).is_dir()
    }

    /// Installs the files into the cache at `cache` unless they are installed, and returns their directory.
    ///
    /// # Errors
    /// [`InstallError`].
    pub fn install(&self, cache: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, InstallError> {
        self.install_with("mvn".into(), cache, progress)
    }

    fn install_with(
        &self,
        maven: OsString,
        cache: &Path,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<PathBuf, InstallError> {
        let start = clock::now();
        let mut tell = |step| tell(Progress { step, elapsed_ns: clock::now().since(start) });
        let _lock = Lock::take(cache, LOCK, || tell(Step::Waiting))?;
        if !self.is_installed(cache) {
            self.fetch(maven, cache, &mut tell)?;
        }
        tell(Step::Installed);
        Ok(self.directory(cache))
    }

    fn fetch(&self, maven: OsString, cache: &Path, tell: &mut dyn FnMut(Step)) -> Result<(), InstallError> {
        let place = self.directory(cache);
        let (partial, log) = (AtomicDir::new(&place)?, sibling(&place, "log"));
        tell(Step::Fetching);
        let project = Project { pom: self.project, list: self.list, form: Form::Jars };
        let mut checking = || tell(Step::Checking);
        let fetched = maven::fetch(maven, project, partial.path(), &log, &mut checking);
        fetched.map_err(|error| InstallError::of(error, self.what, log))?;
        Ok(partial.commit_part(FILES)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    struct Fixture(tempfile::TempDir);

    impl Fixture {
        /// Creates a cache, and a script that replaces Maven. A child process writes the script: if this
        /// process wrote it, a child that another test forks could still hold the file open, and running it
        /// would fail.
        fn new(script: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let write = "printf '%s' \"$1\" > \"$0\"; chmod 755 \"$0\"";
            let mut shell = Command::new("/bin/sh");
            shell
                .arg("-c")
                .arg(write)
                .arg(directory.path().join("mvn"))
                .arg(format!("#!/bin/sh\n{script}\n"));
            assert!(shell.status().unwrap().success());
            Fixture(directory)
        }

        fn cache(&self) -> PathBuf {
            self.0.path().join("cache")
        }

        fn install(&self) -> (Result<PathBuf, InstallError>, Vec<Step>) {
            let (maven, mut steps) = (self.0.path().join("mvn").into_os_string(), Vec::new());
            let tell = &mut |progress: Progress| steps.push(progress.step);
            let result = of(LIST).install_with(maven, &self.cache(), tell);
            (result, steps)
        }
    }

    fn of(list: &str) -> Jars<'_> {
        Jars { list, ..BROKER }
    }

    /// The digest of "jar" with its line end.
    const LIST: &str = "fb8ce05502991565de98e3e21d9ab98151c1cd1715b14a3f7c349cba300cb2b9  a.jar\n";
    const GOOD: &str = "echo run >> ../runs; mkdir files; echo jar > files/a.jar";

    fn check_refused(script: &str, expected: &str) {
        let fixture = Fixture::new(script);
        let error = fixture.install().0.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!is_installed(&fixture.cache()), "a partial one does not count");
    }

    #[test]
    fn an_installed_broker_is_not_fetched_again() {
        let fixture = Fixture::new(GOOD);
        let (place, steps) = fixture.install();
        assert!(place.unwrap().join("a.jar").is_file());
        assert_eq!(steps, [Step::Fetching, Step::Checking, Step::Installed]);
        // A process that another test starts may hold the lock for the moment of its start.
        let again: Vec<_> = fixture.install().1.into_iter().filter(|step| *step != Step::Waiting).collect();
        assert_eq!(again, [Step::Installed]);
        assert_eq!(fs::read_to_string(fixture.cache().join("runs")).unwrap(), "run\n");
    }

    #[test]
    fn a_file_that_is_missing_altered_or_new_is_refused() {
        check_refused("mkdir files", "a.jar is missing");
        check_refused("mkdir files; echo evil > files/a.jar", "a.jar has another checksum");
        check_refused("mkdir files; echo jar > files/a.jar; echo jar > files/b.jar", "b.jar is new");
    }

    #[test]
    fn a_failure_of_maven_is_reported_with_its_last_lines() {
        check_refused("echo no route to the repository; exit 1", "no route to the repository");
    }

    #[test]
    fn without_maven_the_error_says_how_to_get_it() {
        let directory = tempfile::tempdir().unwrap();
        let error = of("").install_with("/nowhere/mvn".into(), directory.path(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("install Maven"), "{error}");
    }

    #[test]
    fn every_file_of_the_list_has_a_checksum() {
        assert!(BROKER.list.lines().count() > 20 && BROKER.directory.ends_with(VERSION));
        for line in BROKER.list.lines() {
            let (sum, name) = line.split_once("  ").unwrap();
            assert!(sum.len() == 64 && name.ends_with(".jar"), "{line}");
        }
    }
}
