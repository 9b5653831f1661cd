//! Fetches a broker once, into the cache.
//!
//! Maven fetches one exact version from Maven Central; then every file must be one of the list in `jars.txt`, with its
//! SHA-256. The result is made beside its place and renamed into it, so what is there is whole.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use plimsoll_measure::clock;
use sha2::{Digest, Sha256};

use super::tail;

/// The version of Apache Kafka that is installed.
pub const VERSION: &str = "4.1.0";
/// What Maven is told to fetch.
const PROJECT: &str = include_str!("pom.xml");
/// The files that come of it: SHA-256 and name, one a line.
const JARS: &str = include_str!("jars.txt");
/// The plugin that copies files, by version.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// How far an installation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it does right now.
    pub step: Step,
    /// Nanoseconds since it began.
    pub elapsed_ns: u64,
}

/// What an installation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Another process installs it; this one waits for that.
    Waiting,
    /// Maven fetches the files: 54 MB, about a minute.
    Fetching,
    /// Their checksums are compared.
    Checking,
    /// It is there.
    Installed,
}

/// It could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The cache cannot be written.
    #[error("{path:?} cannot be written ({source}): set PLIMSOLL_CACHE to a directory with 200 MB of room")]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no Maven.
    #[error(
        "mvn cannot be run ({0}): install Maven (Debian: `apt-get install maven`), or name a broker of your own"
    )]
    NoMaven(io::Error),
    /// Maven failed.
    #[error(
        "the broker could not be fetched ({status}): is there a network? The last lines of {log:?}:\n{tail}"
    )]
    Fetch {
        /// How Maven ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// What came is not what was expected.
    #[error(
        "what Maven fetched is not the broker that is known ({0}): try again, and do not trust the mirror that it came from"
    )]
    Altered(String),
}

fn cache_error(path: &Path) -> impl FnOnce(io::Error) -> InstallError + use<> {
    let path = path.to_owned();
    move |source| InstallError::Cache { path, source }
}

/// Where the broker's files are, or will be, in the cache at `cache`.
pub fn directory(cache: &Path) -> PathBuf {
    cache.join(format!("kafka-{VERSION}"))
}

/// Whether it is there. A half-finished installation never counts.
pub fn is_installed(cache: &Path) -> bool {
    directory(cache).is_dir()
}

/// Installs it into the cache at `cache`, unless it is there; gives the directory of its files. Takes about a minute and
/// calls `progress` at every step. Two processes that call this at once fetch it once.
///
/// # Errors
/// [`InstallError`].
pub fn install(cache: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, InstallError> {
    install_with("mvn".into(), JARS, cache, progress)
}

fn install_with(
    maven: OsString,
    jars: &str,
    cache: &Path,
    tell: &mut dyn FnMut(Progress),
) -> Result<PathBuf, InstallError> {
    let start = clock::now();
    let mut tell = |step| tell(Progress { step, elapsed_ns: clock::now().since(start) });
    fs::create_dir_all(cache).map_err(cache_error(cache))?;
    let _lock = lock(cache, &mut tell)?;
    if !is_installed(cache) {
        fetch(maven, jars, cache, &mut tell)?;
    }
    tell(Step::Installed);
    Ok(directory(cache))
}

/// One installation at a time; the lock goes with the file.
fn lock(cache: &Path, tell: &mut dyn FnMut(Step)) -> Result<File, InstallError> {
    let path = cache.join("kafka.lock");
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = open.map_err(cache_error(&path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => tell(Step::Waiting),
        Err(TryLockError::Error(source)) => return Err(InstallError::Cache { path, source }),
    }
    file.lock().map_err(cache_error(&path))?;
    Ok(file)
}

fn fetch(maven: OsString, jars: &str, cache: &Path, tell: &mut dyn FnMut(Step)) -> Result<(), InstallError> {
    let site = cache.join(format!("kafka-{VERSION}.partial"));
    let log = cache.join(format!("kafka-{VERSION}.log"));
    remove(&site)?;
    fs::create_dir_all(&site).map_err(cache_error(&site))?;
    fs::write(site.join("pom.xml"), PROJECT).map_err(cache_error(&site))?;
    tell(Step::Fetching);
    let output = File::create(&log).map_err(cache_error(&log))?;
    let status = command(maven, &site, output).status().map_err(InstallError::NoMaven)?;
    if !status.success() {
        return Err(InstallError::Fetch { status, tail: tail(&log), log });
    }
    tell(Step::Checking);
    check(&site.join("jars"), jars)?;
    fs::rename(site.join("jars"), directory(cache)).map_err(cache_error(cache))?;
    remove(&site)
}

fn remove(directory: &Path) -> Result<(), InstallError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cache_error(directory)(error)),
        _ => Ok(()),
    }
}

/// Maven with a repository of its own, so that nothing is left in the user's; the settings that name a mirror are his.
fn command(maven: OsString, site: &Path, log: File) -> Command {
    let mut command = Command::new(maven);
    command.args(["--batch-mode", "--no-transfer-progress", COPY, "-DoutputDirectory=jars"]);
    command.arg(format!("-Dmaven.repo.local={}", site.join("repository").display()));
    command.current_dir(site).stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
    command
}

/// Compares the files of a directory with the list: none may be missing, altered or added.
fn check(directory: &Path, jars: &str) -> Result<(), InstallError> {
    let listed = jars.lines().filter_map(|line| line.split_once("  "));
    let expected: BTreeMap<String, String> =
        listed.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect();
    let found = sums(directory).map_err(cache_error(directory))?;
    let differs = |name: &&String| expected.get(*name) != found.get(*name);
    match expected.keys().chain(found.keys()).find(differs) {
        Some(name) if !found.contains_key(name) => Err(InstallError::Altered(format!("{name} is missing"))),
        Some(name) if !expected.contains_key(name) => Err(InstallError::Altered(format!("{name} is new"))),
        Some(name) => Err(InstallError::Altered(format!("{name} has another checksum"))),
        None => Ok(()),
    }
}

/// The SHA-256 of every file, by name.
fn sums(directory: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut sums = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let digest = Sha256::digest(fs::read(entry.path())?);
        let sum = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        sums.insert(entry.file_name().to_string_lossy().into_owned(), sum);
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench(tempfile::TempDir);

    impl Bench {
        /// A cache, and a script in the place of Maven. A child writes the script: a file that this process had open for
        /// writing could still be open in a child that another test forks, and would then not be run.
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
            Bench(directory)
        }

        fn cache(&self) -> PathBuf {
            self.0.path().join("cache")
        }

        fn install(&self) -> (Result<PathBuf, InstallError>, Vec<Step>) {
            let (maven, mut steps) = (self.0.path().join("mvn").into_os_string(), Vec::new());
            let sum = sums_of("jar\n");
            let tell = &mut |progress: Progress| steps.push(progress.step);
            let result = install_with(maven, &format!("{sum}  a.jar\n"), &self.cache(), tell);
            (result, steps)
        }
    }

    fn sums_of(text: &str) -> String {
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    const GOOD: &str = "echo run >> ../runs; mkdir jars; echo jar > jars/a.jar";

    fn check_refused(script: &str, said: &str) {
        let bench = Bench::new(script);
        let error = bench.install().0.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(!is_installed(&bench.cache()), "half an installation is none");
    }

    #[test]
    fn what_is_installed_is_not_fetched_again() {
        let bench = Bench::new(GOOD);
        let (place, steps) = bench.install();
        assert!(place.unwrap().join("a.jar").is_file());
        assert_eq!(steps, [Step::Fetching, Step::Checking, Step::Installed]);
        // A process that another test starts may hold the lock for the moment of its start.
        let again: Vec<_> = bench.install().1.into_iter().filter(|step| *step != Step::Waiting).collect();
        assert_eq!(again, [Step::Installed]);
        assert_eq!(fs::read_to_string(bench.cache().join("runs")).unwrap(), "run\n");
    }

    #[test]
    fn a_file_that_is_missing_altered_or_new_is_refused() {
        check_refused("mkdir jars", "a.jar is missing");
        check_refused("mkdir jars; echo evil > jars/a.jar", "a.jar has another checksum");
        check_refused("mkdir jars; echo jar > jars/a.jar; echo jar > jars/b.jar", "b.jar is new");
    }

    #[test]
    fn a_failure_of_maven_is_told_with_its_last_words() {
        check_refused("echo no route to the repository; exit 1", "no route to the repository");
    }

    #[test]
    fn without_maven_the_error_says_how_to_get_it() {
        let directory = tempfile::tempdir().unwrap();
        let error = install_with("/nowhere/mvn".into(), "", directory.path(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("install Maven"), "{error}");
    }

    #[test]
    fn every_file_of_the_list_has_a_checksum() {
        assert!(JARS.lines().count() > 20);
        for line in JARS.lines() {
            let (sum, name) = line.split_once("  ").unwrap();
            assert!(sum.len() == 64 && name.ends_with(".jar"), "{line}");
        }
    }
}
