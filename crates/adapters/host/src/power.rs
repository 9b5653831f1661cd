//! Simulates a power loss. `kill -9` leaves unsynced writes of the server in the system's cache; a power loss
//! does not.
//!
//! A small library is preloaded into the server and copies each synced range of its files at the end of the
//! sync. After a power loss, the copy takes the place of the data. So a server loses exactly the writes that
//! it has not synced. The library is built with the C compiler when it is first needed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_install::{AtomicDir, Cache, Lock, remove};
use plimsoll_process::home;

/// The source of the library.
const SOURCE: &str = include_str!("power/synced.c");
/// The name of the library.
const LIBRARY: &str = "libsynced.so";
/// The program that starts the server with the library; the server keeps its process ID.
const ENV: &str = "/usr/bin/env";

/// Whether a server can lose its power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PowerLoss {
    /// A loss of power cannot be simulated: no copy of the synced data is kept.
    #[default]
    Impossible,
    /// A loss of power can be simulated: a copy of the synced data is kept.
    Possible,
}

/// The library could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The C compiler cannot be run.
    #[error(
        "a power loss needs a C compiler, and {0:?} cannot be run ({1}): install one, name it in CC, or use the fault `kill`"
    )]
    NoCompiler(OsString, io::Error),
    /// The compiler failed.
    #[error("a power loss needs a small library that could not be compiled; the compiler says:\n{0}")]
    Compile(String),
    /// The cache cannot be written.
    #[error("{path:?} cannot be written ({source}): set PLIMSOLL_CACHE to a directory with free space")]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl From<plimsoll_install::Error> for Error {
    fn from(plimsoll_install::Error { path, source }: plimsoll_install::Error) -> Self {
        Self::Cache { path, source }
    }
}

/// Builds the library unless the cache has it, and returns its path.
///
/// # Errors
/// [`Error::NoCompiler`], [`Error::Compile`], [`Error::Cache`].
pub(crate) fn library(cache: &Cache) -> Result<PathBuf, Error> {
    let compiler = env::var_os("CC").filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".into());
    library_with(&compiler, cache)
}

fn library_with(compiler: &OsString, cache: &Cache) -> Result<PathBuf, Error> {
    let _lock = Lock::take(cache.root(), "power-loss.lock", || {})?;
    let directory = cache.root().join("power-loss");
    let (library, source) = (directory.join(LIBRARY), directory.join("synced.c"));
    if library.is_file() && fs::read_to_string(&source).is_ok_and(|text| text == SOURCE) {
        return Ok(library);
    }
    let partial = AtomicDir::new(&directory)?;
    let source = partial.path().join("synced.c");
    fs::write(&source, SOURCE).map_err(|error| Error::Cache { path: source.clone(), source: error })?;
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O2", "-pthread", "-o"]).arg(partial.path().join(LIBRARY));
    let built = command.arg(&source).arg("-ldl").output();
    let built = built.map_err(|error| Error::NoCompiler(compiler.clone(), error))?;
    if !built.status.success() {
        return Err(Error::Compile(String::from_utf8_lossy(&built.stderr).into_owned()));
    }
    remove(&directory)?;
    partial.commit()?;
    Ok(library)
}

/// The program and the arguments that start `program` with the library.
pub(crate) fn preloaded(
    library: &Path,
    home: &Path,
    data: &Path,
    program: PathBuf,
    args: Vec<OsString>,
) -> (PathBuf, Vec<OsString>) {
    let variable = |name: &str, value: &Path| {
        let mut set = OsString::from(format!("{name}="));
        set.push(value);
        set
    };
    let mut all = vec![
        variable("LD_PRELOAD", library),
        variable("PLIMSOLL_POWER_DATA", data),
        variable("PLIMSOLL_POWER_SYNCED", &synced(home)),
        program.into_os_string(),
    ];
    all.extend(args);
    (ENV.into(), all)
}

/// The copy of the synced data in the home of a server.
pub(crate) fn synced(home: &Path) -> PathBuf {
    home.join("synced")
}

/// Begins a copy with the present data, before the server starts.
///
/// # Errors
/// The file system's error.
pub(crate) fn begin(home: &Path, data: &Path) -> Result<(), home::Error> {
    let synced = synced(home);
    clear(&synced)?;
    home::copy(data, &synced)
}

/// Puts the copy in the place of the data, after the server was killed.
///
/// # Errors
/// The file system's error.
pub(crate) fn lose(home: &Path, data: &Path) -> Result<(), home::Error> {
    clear(data)?;
    let synced = synced(home);
    fs::rename(&synced, data).map_err(at(&synced))
}

/// Removes the copy, which a stopped server no longer needs.
///
/// # Errors
/// The file system's error.
pub(crate) fn forget(home: &Path) -> Result<(), home::Error> {
    clear(&synced(home))
}

fn clear(directory: &Path) -> Result<(), home::Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(directory)(error)),
        _ => Ok(()),
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> home::Error + use<> {
    let path = path.to_owned();
    move |source| home::Error::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a Python program with the library, and returns the content of its files after a power loss.
    fn survivors(program: &str) -> Vec<(String, String)> {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("old"), "before").unwrap();
        begin(home.path(), &data).unwrap();
        let library = library(&Cache::at(home.path().join("cache"))).unwrap();
        let script = format!("import os\nos.chdir({:?})\n{program}", data.display().to_string());
        let args = vec!["-c".into(), script.into()];
        let (program, args) = preloaded(&library, home.path(), &data, "python3".into(), args);
        let done = Command::new(program).args(args).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        lose(home.path(), &data).unwrap();
        let read = |entry: io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())
        };
        let mut files: Vec<_> = fs::read_dir(&data).unwrap().map(read).collect();
        files.sort();
        files
    }

    fn check(program: &str, expected: &[(&str, &str)]) {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        assert_eq!(survivors(program), expected.iter().map(owned).collect::<Vec<_>>(), "{program}");
    }

    const OPEN: &str = "f = os.open('f', os.O_RDWR | os.O_CREAT)\n";

    #[test]
    fn a_power_loss_keeps_exactly_the_synced_bytes() {
        let synced = format!(
            "{OPEN}os.write(f, b'kept'); os.fsync(f); os.pwrite(f, b'LOST', 0); os.write(f, b'tail')"
        );
        check(&synced, &[("f", "kept"), ("old", "before")]);
        let in_place =
            "f = os.open('old', os.O_RDWR)\nos.pwrite(f, b'BE', 0); os.fdatasync(f); os.pwrite(f, b'x', 5)";
        check(in_place, &[("old", "BEfore")]);
        let shortened = "f = os.open('old', os.O_RDWR)\nos.ftruncate(f, 3); os.fsync(f); os.ftruncate(f, 1)";
        check(shortened, &[("old", "bef")]);
        check(&format!("{OPEN}os.write(f, b'lost')"), &[("f", ""), ("old", "before")]);
    }

    #[test]
    fn a_renamed_file_keeps_its_synced_bytes_and_a_removed_one_is_gone() {
        let renamed =
            format!("{OPEN}os.write(f, b'new'); os.fsync(f); os.rename('f', 'old'); os.pwrite(f, b'x', 0)");
        check(&renamed, &[("old", "new")]);
        let synced_later =
            format!("{OPEN}os.rename('f', 'g'); os.write(f, b'later'); os.fsync(f); os.close(f)");
        check(&synced_later, &[("g", "later"), ("old", "before")]);
        let again = format!(
            "{OPEN}os.write(f, b'first'); os.fsync(f); os.unlink('f'); g = os.open('f', os.O_RDWR | os.O_CREAT); os.write(g, b'2'); os.fsync(g)"
        );
        check(&again, &[("f", "2"), ("old", "before")]);
        check("os.unlink('old')", &[]);
    }

    #[test]
    fn a_missing_compiler_is_named_with_a_remedy() {
        let cache = tempfile::tempdir().unwrap();
        let error =
            library_with(&"/nonexistent/cc".into(), &Cache::at(cache.path())).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/cc") && error.contains("use the fault `kill`"), "{error}");
    }
}
