//! Builds the embedded server once, into the cache.
//!
//! `cargo install` fetches one exact version with the dependencies of its lock file (`--locked`); cargo
//! verifies the registry's checksum of every crate. The build runs in a temporary directory, which is renamed
//! to its final name at the end. So a program in the cache is always complete.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use plimsoll_install::fetch::{self, Output, RunError, Stream};
use plimsoll_install::{AtomicDir, Cache, Error, Lock, remove, sibling};
use plimsoll_measure::clock;

use super::progress::Tracker;
pub use super::progress::{Progress, Step};

/// The installed version of SecantusDB.
pub const VERSION: &str = "0.5.3-beta.196";
/// The crate that contains SecantusDB.
const PACKAGE: &str = "secantus-mdb";
/// The name of the program.
const PROGRAM: &str = "secantusd-rs";
/// The name of the lock file in the cache.
const LOCK: &str = "install.lock";
/// The environment variable that SecantusDB's build script passes on to CMake.
const TOOLCHAIN: &str = "CMAKE_TOOLCHAIN_FILE";
/// CMake settings that let WiredTiger compile in less CPU time.
const WIREDTIGER: &str = include_str!("wiredtiger.cmake");

/// The embedded server could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The cache cannot be written.
    #[error(
        "{path:?} cannot be written ({source}): set PLIMSOLL_CACHE to a directory with 2 GB of free space"
    )]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Cargo is missing.
    #[error(
        "cargo cannot be run ({0}): install Rust from https://rustup.rs, or give the address of a MongoDB server"
    )]
    NoCargo(io::Error),
    /// The build failed.
    #[error(
        "the embedded server could not be built ({status}). It needs cargo, a C compiler (cc), cmake and a network; the \
         finished part is kept, so the next attempt continues there. The full log is {log:?}; its last lines:\n{tail}"
    )]
    Build {
        /// Cargo's exit status.
        status: ExitStatus,
        /// The log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// Cargo succeeded without leaving a program.
    #[error("cargo succeeded but left no {0:?}: remove the cache directory and try again")]
    NoProgram(PathBuf),
}

impl From<Error> for InstallError {
    fn from(Error { path, source }: Error) -> Self {
        Self::Cache { path, source }
    }
}

/// The path of the program, installed or not.
pub fn binary(cache: &Cache) -> PathBuf {
    root(cache).join("bin").join(PROGRAM)
}

/// Whether the server is installed. An interrupted installation does not count.
pub fn is_installed(cache: &Cache) -> bool {
    binary(cache).is_file()
}

fn root(cache: &Cache) -> PathBuf {
    cache.root().join(format!("{PACKAGE}-{VERSION}"))
}

/// Installs the server unless it is installed, and returns the program's path. Takes about 6 minutes on two
/// cores; calls `progress` at every step and at least once a second while it compiles. Two concurrent calls
/// build once.
///
/// # Errors
/// [`InstallError::NoCargo`], [`InstallError::Build`] with the log's last lines, [`InstallError::Cache`].
pub fn install(cache: &Cache, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, InstallError> {
    // Under `cargo xtask` this is the running cargo; otherwise the one on the PATH.
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    install_with(cargo, cache, progress)
}

fn install_with(
    cargo: OsString,
    cache: &Cache,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, InstallError> {
    let start = clock::now();
    let mut tracker = Tracker::new();
    let mut report = |change: Change<'_>| {
        let elapsed_ns = clock::now().since(start);
        match change {
            Change::Step(step) => tracker.begin(step),
            Change::Status(line) => tracker.read(line, elapsed_ns),
            Change::None => {}
        }
        progress(tracker.at(elapsed_ns));
    };
    let _lock = Lock::take(cache.root(), LOCK, || report(Change::Step(Step::Waiting)))?;
    if !is_installed(cache) {
        report(Change::Step(Step::Fetching));
        build(cargo, cache, &mut report)?;
    }
    report(Change::Step(Step::Installed));
    Ok(binary(cache))
}

/// A reason to report progress.
enum Change<'a> {
    Step(Step),
    /// Cargo's status line.
    Status(&'a str),
    /// Time passed.
    None,
}

fn build(cargo: OsString, cache: &Cache, report: &mut dyn FnMut(Change<'_>)) -> Result<(), InstallError> {
    let root = root(cache);
    let (partial, target, log) = (AtomicDir::new(&root)?, sibling(&root, "build"), sibling(&root, "log"));
    let command = command(cargo, cache, partial.path(), &target)?;
    let mut observe = |output: Output<'_>| match output {
        Output::Line(_) => {}
        Output::Status(line) => report(Change::Status(line)),
        Output::Silence => report(Change::None),
    };
    let finished = fetch::run(command, Stream::Stderr, Some(&log), &mut observe).map_err(not_run)?;
    if !finished.status.success() {
        return Err(InstallError::Build { status: finished.status, log, tail: finished.tail });
    }
    let program = partial.path().join("bin").join(PROGRAM);
    if !program.is_file() {
        return Err(InstallError::NoProgram(program));
    }
    partial.commit()?;
    Ok(remove(&target)?)
}

fn not_run(error: RunError) -> InstallError {
    match error {
        RunError::Program(source) => InstallError::NoCargo(source),
        RunError::Log(error) => error.into(),
    }
}

/// Builds cargo's command. Cargo runs in the cache's directory, so that no `.cargo/config.toml` of the user's
/// project applies.
fn command(cargo: OsString, cache: &Cache, root: &Path, target: &Path) -> Result<Command, Error> {
    let mut command = Command::new(cargo);
    let version = format!("={VERSION}");
    command.args([
        "install",
        PACKAGE,
        "--version",
        &version,
        "--locked",
        "--ignore-rust-version",
        "--color=never",
    ]);
    command.arg("--root").arg(root).arg("--target-dir").arg(target).current_dir(cache.root());
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    // The crate requests link-time optimisation in one unit, which leaves a core idle for the last minute of
    // the build. The setting does not affect the storage engine, which is written in C.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    // Makes cargo write its status line into the pipe too.
    command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "200");
    if env::var_os(TOOLCHAIN).is_none() {
        let toolchain = target.join("wiredtiger.cmake");
        fs::create_dir_all(target).map_err(Error::at(target))?;
        fs::write(&toolchain, WIREDTIGER).map_err(Error::at(&toolchain))?;
        command.env(TOOLCHAIN, toolchain);
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};
    use std::thread;

    struct Fixture {
        directory: tempfile::TempDir,
    }

    impl Fixture {
        /// Creates a cache, and a script that replaces cargo. A child process writes the script: if this
        /// process wrote it, a child that another test forks could still hold the file open, and running it
        /// would fail.
        fn new(script: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let write = "printf '%s' \"$1\" > \"$0\"; chmod 755 \"$0\"";
            let mut shell = Command::new("/bin/sh");
            shell
                .arg("-c")
                .arg(write)
                .arg(directory.path().join("cargo"))
                .arg(format!("#!/bin/sh\n{script}\n"));
            assert!(shell.status().unwrap().success());
            Fixture { directory }
        }

        fn cache(&self) -> Cache {
            Cache::at(self.directory.path().join("cache"))
        }

        fn install(&self) -> (Result<PathBuf, InstallError>, Vec<Step>) {
            let mut steps = Vec::new();
            let cargo = self.directory.path().join("cargo").into_os_string();
            let result = install_with(cargo, &self.cache(), &mut |progress| steps.push(progress.step));
            (result, steps)
        }
    }

    /// `$9` is the value of `--root`, as [`command`] orders the arguments.
    const GOOD: &str = "echo run >> runs; echo '   Compiling cc v1.2.3' >&2; \
                        printf '    Building [=> ] 1/3: cc\\r    Building [=>] 2/3: bson, cc(build)\\r' >&2; \
                        mkdir -p $9/bin; echo program > $9/bin/secantusd-rs";

    #[test]
    fn a_good_build_reports_its_progress_and_is_renamed_into_its_directory() {
        let fixture = Fixture::new(GOOD);
        let (program, steps) = fixture.install();
        assert_eq!(fs::read_to_string(program.unwrap()).unwrap(), "program\n");
        let compiling = |done, name: &str| Step::Compiling { done, total: 3, name: name.to_owned() };
        assert_eq!(steps, [Step::Fetching, compiling(1, "cc"), compiling(2, "bson"), Step::Installed]);
        assert!(!sibling(&root(&fixture.cache()), "partial").exists());
    }

    #[test]
    fn an_installed_server_is_not_built_again() {
        let fixture = Fixture::new(GOOD);
        fixture.install().0.unwrap();
        // A process that another test starts may hold the lock for the moment of its start.
        let again: Vec<_> = fixture.install().1.into_iter().filter(|step| *step != Step::Waiting).collect();
        assert_eq!(again, [Step::Installed]);
    }

    #[test]
    fn a_failed_build_reports_its_last_lines_and_requirements() {
        let fixture = Fixture::new(
            "mkdir -p $9/bin; echo half > $9/bin/secantusd-rs; echo 'cmake not found' >&2; exit 101",
        );
        let text = fixture.install().0.unwrap_err().to_string();
        assert!(text.contains("cmake not found") && text.contains("a C compiler"), "{text}");
        assert!(!is_installed(&fixture.cache()), "half a build is not an installation");
    }

    #[test]
    fn a_build_without_a_program_is_an_error() {
        assert!(matches!(Fixture::new("exit 0").install().0, Err(InstallError::NoProgram(_))));
    }

    #[test]
    fn without_cargo_the_error_says_where_to_get_it() {
        let fixture = Fixture::new("");
        let error = install_with("/nowhere/cargo".into(), &fixture.cache(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("rustup.rs"));
    }

    #[test]
    fn two_concurrent_installations_build_once() {
        let fixture = Arc::new(Fixture::new(&format!("{GOOD}; sleep 0.1")));
        let barrier = Arc::new(Barrier::new(2));
        let both: Vec<_> = (0..2)
            .map(|_| {
                let (fixture, barrier) = (Arc::clone(&fixture), Arc::clone(&barrier));
                thread::spawn(move || {
                    barrier.wait();
                    fixture.install().0.unwrap();
                })
            })
            .collect();
        both.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(fs::read_to_string(fixture.cache().root().join("runs")).unwrap(), "run\n");
    }
}
