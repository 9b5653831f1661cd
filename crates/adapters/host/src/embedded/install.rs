//! Builds the embedded server once, into the cache.
//!
//! `cargo install` fetches one exact version with the dependencies of its own lock file (`--locked`); cargo verifies the
//! registry's checksum of every crate. The result is built beside its place and renamed into it, so what is there is
//! whole.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use plimsoll_install::fetch::{self, RunError, Talk};
use plimsoll_install::{Cache, Lock, Site, beside, remove};
use plimsoll_measure::clock;

/// The version of SecantusDB that is installed.
pub const VERSION: &str = "0.5.3-beta.196";
/// The crate that holds it.
const PACKAGE: &str = "secantus-mdb";
/// Its program.
const PROGRAM: &str = "secantusd-rs";
/// Its lock in the cache.
const LOCK: &str = "install.lock";
/// Crates that cargo compiles for it on Linux: `cargo tree -e normal,build`, each once.
const CRATES: u32 = 210;

/// How far an installation is. A step can last for minutes (the storage engine is one crate): who shows the time must
/// count on by itself.
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
    /// The sources are fetched.
    Fetching,
    /// A crate is compiled.
    Compiling {
        /// How many have been begun.
        begun: u32,
        /// About how many there are.
        expected: u32,
        /// The one that was begun last.
        name: String,
    },
    /// It is there.
    Installed,
}

/// It could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The cache cannot be written.
    #[error("{path:?} cannot be written ({source}): set PLIMSOLL_CACHE to a directory with 2 GB of room")]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no cargo.
    #[error(
        "cargo cannot be run ({0}): install Rust from https://rustup.rs, or give the address of a MongoDB server"
    )]
    NoCargo(io::Error),
    /// The build failed.
    #[error(
        "the embedded server could not be built ({status}). It needs cargo, a C compiler (cc), cmake and a network; what \
         was built is kept, so the next try goes on from there. The whole log is {log:?}; its last lines:\n{tail}"
    )]
    Build {
        /// How cargo ended.
        status: ExitStatus,
        /// The log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// Cargo said yes, but there is no program.
    #[error("cargo ended well but left no {0:?}: remove the cache directory and try again")]
    NoProgram(PathBuf),
}

impl From<plimsoll_install::Error> for InstallError {
    fn from(plimsoll_install::Error { path, source }: plimsoll_install::Error) -> Self {
        Self::Cache { path, source }
    }
}

/// Where the program is, or will be.
pub fn binary(cache: &Cache) -> PathBuf {
    root(cache).join("bin").join(PROGRAM)
}

/// Whether it is there. A half-finished installation never counts.
pub fn is_installed(cache: &Cache) -> bool {
    binary(cache).is_file()
}

fn root(cache: &Cache) -> PathBuf {
    cache.root().join(format!("{PACKAGE}-{VERSION}"))
}

/// Installs it, unless it is there; gives the program's path. Takes about 6 minutes on two cores and calls `progress` at
/// every step. Two processes that call this at once build it once.
///
/// # Errors
/// [`InstallError::NoCargo`], [`InstallError::Build`] with the log's last lines, [`InstallError::Cache`].
pub fn install(cache: &Cache, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, InstallError> {
    // Under `cargo xtask` this is the very cargo that runs; otherwise the one on the PATH.
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    install_with(cargo, cache, progress)
}

fn install_with(
    cargo: OsString,
    cache: &Cache,
    tell: &mut dyn FnMut(Progress),
) -> Result<PathBuf, InstallError> {
    let start = clock::now();
    let mut tell = |step| tell(Progress { step, elapsed_ns: clock::now().since(start) });
    let _lock = Lock::take(cache.root(), LOCK, || tell(Step::Waiting))?;
    if !is_installed(cache) {
        build(cargo, cache, &mut tell)?;
    }
    tell(Step::Installed);
    Ok(binary(cache))
}

fn build(cargo: OsString, cache: &Cache, tell: &mut dyn FnMut(Step)) -> Result<(), InstallError> {
    let place = root(cache);
    let (site, target, log) = (Site::beside(&place)?, beside(&place, "build"), beside(&place, "log"));
    tell(Step::Fetching);
    let command = command(cargo, cache, site.path(), &target);
    let ended = fetch::run(command, Talk::Error, Some(&log), &mut counted(tell)).map_err(not_run)?;
    if !ended.status.success() {
        return Err(InstallError::Build { status: ended.status, log, tail: ended.tail });
    }
    let program = site.path().join("bin").join(PROGRAM);
    if !program.is_file() {
        return Err(InstallError::NoProgram(program));
    }
    site.put()?;
    // What was built on the way is of no use any more.
    Ok(remove(&target)?)
}

fn not_run(error: RunError) -> InstallError {
    match error {
        RunError::Program(source) => InstallError::NoCargo(source),
        RunError::Log(error) => error.into(),
    }
}

/// Tells of every crate that a line of cargo's begins.
fn counted(tell: &mut dyn FnMut(Step)) -> impl FnMut(&str) {
    let mut begun = 0;
    move |line| {
        if let Some(name) = compiled(line) {
            begun += 1;
            tell(Step::Compiling { begun, expected: CRATES.max(begun), name });
        }
    }
}

/// It runs in the cache, so that no `.cargo/config.toml` of the user's project has a say.
fn command(cargo: OsString, cache: &Cache, root: &Path, target: &Path) -> Command {
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
    command
}

/// The crate in a line such as `   Compiling tokio v1.49.0`.
fn compiled(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("Compiling ")?;
    Some(rest.split(' ').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::{Arc, Barrier};
    use std::thread;

    struct Bench {
        directory: tempfile::TempDir,
    }

    impl Bench {
        /// A cache, and a script in the place of cargo. A child writes the script: a file that this process had open for
        /// writing could still be open in a child that another test forks, and would then not be run.
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
            Bench { directory }
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
    const GOOD: &str = "echo run >> runs; echo '   Compiling cc v1.2.3' >&2; echo '   Compiling bson v2' >&2; \
                        mkdir -p $9/bin; echo program > $9/bin/secantusd-rs";

    #[test]
    fn a_good_build_is_counted_and_put_in_its_place() {
        let bench = Bench::new(GOOD);
        let (program, steps) = bench.install();
        assert_eq!(fs::read_to_string(program.unwrap()).unwrap(), "program\n");
        let compiling =
            |begun, name: &str| Step::Compiling { begun, expected: CRATES, name: name.to_owned() };
        assert_eq!(steps, [Step::Fetching, compiling(1, "cc"), compiling(2, "bson"), Step::Installed]);
        assert!(!beside(&root(&bench.cache()), "partial").exists());
    }

    #[test]
    fn what_is_installed_is_not_built_again() {
        let bench = Bench::new(GOOD);
        bench.install().0.unwrap();
        // A process that another test starts may hold the lock for the moment of its start.
        let again: Vec<_> = bench.install().1.into_iter().filter(|step| *step != Step::Waiting).collect();
        assert_eq!(again, [Step::Installed]);
    }

    #[test]
    fn a_failed_build_tells_the_last_lines_and_what_is_needed() {
        let bench = Bench::new(
            "mkdir -p $9/bin; echo half > $9/bin/secantusd-rs; echo 'cmake not found' >&2; exit 101",
        );
        let text = bench.install().0.unwrap_err().to_string();
        assert!(text.contains("cmake not found") && text.contains("a C compiler"), "{text}");
        assert!(!is_installed(&bench.cache()), "half a build is not an installation");
    }

    #[test]
    fn a_build_without_a_program_is_an_error() {
        assert!(matches!(Bench::new("exit 0").install().0, Err(InstallError::NoProgram(_))));
    }

    #[test]
    fn without_cargo_the_error_says_where_to_get_it() {
        let bench = Bench::new("");
        let error = install_with("/nowhere/cargo".into(), &bench.cache(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("rustup.rs"));
    }

    #[test]
    fn two_at_once_build_it_once() {
        let bench = Arc::new(Bench::new(&format!("{GOOD}; sleep 0.1")));
        let barrier = Arc::new(Barrier::new(2));
        let both: Vec<_> = (0..2)
            .map(|_| {
                let (bench, barrier) = (Arc::clone(&bench), Arc::clone(&barrier));
                thread::spawn(move || {
                    barrier.wait();
                    bench.install().0.unwrap();
                })
            })
            .collect();
        both.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(fs::read_to_string(bench.cache().root().join("runs")).unwrap(), "run\n");
    }
}
