//! Records the servers that `plimsoll server start` left running, in one small file each in the cache.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_install::Cache;
use plimsoll_process::{Detached, Ending};
use serde::{Deserialize, Serialize};

use crate::launch_spec::Profile;

/// The time limit of a graceful stop, for a server that cannot be registered.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// The list of running servers.
#[derive(Clone, Debug)]
pub struct Registry {
    directory: PathBuf,
}

/// A running server, as the registry records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The listening address.
    pub address: SocketAddr,
    /// The process ID.
    pub pid: u32,
    /// The start of the process, in clock ticks since boot. Process IDs are reused; this pair is not.
    pub started_ticks: u64,
    /// Its durability profile, for an embedded server.
    pub profile: Option<Profile>,
    /// The directory of its data and its log.
    pub storage: PathBuf,
    /// Whether stopping the server removes the storage.
    pub temporary: bool,
    /// Its part in a deployment of several servers, which stop together. `None` for a single server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// A server's part in a deployment of several servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The name of the deployment.
    pub deployment: String,
    /// The role, such as `member of rs0` or `router`.
    pub role: String,
}

/// The registry cannot be read or written, or a server in it cannot be stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused an access.
    #[error(
        "the list of running servers at {path:?} cannot be used ({source}): check its owner and the disk"
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The process ended before it was registered.
    #[error("the server (process {0}) ended at once: start it again and look into its log")]
    Gone(u32),
    /// The process cannot be signalled, or does not end.
    #[error("the server (process {pid}) cannot be stopped ({source}): end it by hand with `kill -9 {pid}`")]
    Stop {
        /// The process ID.
        pid: u32,
        /// The cause.
        source: io::Error,
    },
}

impl Entry {
    fn process(&self) -> Detached {
        Detached { pid: self.pid, started_ticks: self.started_ticks }
    }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

impl Registry {
    /// Opens the registry in a cache; creates its directory.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be created.
    pub fn of(cache: &Cache) -> Result<Self, Error> {
        let directory = cache.root().join("servers");
        fs::create_dir_all(&directory).map_err(io_at(&directory))?;
        Ok(Registry { directory })
    }

    /// The directory of the registry's files, and of the temporary storage of its servers.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn add(
        &self,
        pid: u32,
        address: SocketAddr,
        profile: Option<Profile>,
        storage: PathBuf,
        temporary: bool,
        part: Option<Part>,
    ) -> Result<Entry, Error> {
        let Detached { started_ticks, .. } = Detached::of(pid).ok_or(Error::Gone(pid))?;
        let entry = Entry { address, pid, started_ticks, profile, storage, temporary, part };
        match self.write(&entry) {
            Ok(()) => Ok(entry),
            Err(error) => {
                // An unregistered server must not stay; only the first error is reported.
                let _ = self.stop(&entry, KILL_LIMIT);
                Err(error)
            }
        }
    }

    fn write(&self, entry: &Entry) -> Result<(), Error> {
        let path = self.file(entry);
        let text = serde_json::to_string_pretty(entry).map_err(|error| io_at(&path)(error.into()))?;
        let partial = path.with_extension("partial");
        fs::write(&partial, text).map_err(io_at(&partial))?;
        fs::rename(&partial, &path).map_err(io_at(&path))
    }

    fn file(&self, entry: &Entry) -> PathBuf {
        self.directory.join(format!("{}.json", entry.pid))
    }

    /// The running servers, by port. Servers that have ended are removed from the registry, with their
    /// temporary storage.
    ///
    /// # Errors
    /// [`Error::Io`] if the registry cannot be read. Invalid files are skipped.
    pub fn running(&self) -> Result<Vec<Entry>, Error> {
        let files = fs::read_dir(&self.directory).map_err(io_at(&self.directory))?;
        let entries = files.flatten().filter_map(|file| read(&file.path()));
        let (mut running, ended): (Vec<Entry>, Vec<Entry>) =
            entries.partition(|entry| entry.process().is_running());
        ended.iter().try_for_each(|entry| self.remove(entry))?;
        running.sort_by_key(|entry| entry.address.port());
        Ok(running)
    }

    /// Stops a server gracefully, kills it after `limit`, and removes it from the registry. A server that has
    /// already ended counts as graceful.
    ///
    /// # Errors
    /// [`Error::Stop`] if the process belongs to another user or does not die.
    pub fn stop(&self, entry: &Entry, limit: Duration) -> Result<Ending, Error> {
        let ending = entry.process().end(limit).map_err(|source| Error::Stop { pid: entry.pid, source })?;
        self.remove(entry)?;
        Ok(ending)
    }

    fn remove(&self, entry: &Entry) -> Result<(), Error> {
        if entry.temporary {
            absent(fs::remove_dir_all(&entry.storage)).map_err(io_at(&entry.storage))?;
        }
        let file = self.file(entry);
        absent(fs::remove_file(&file)).map_err(io_at(&file))
    }
}

/// A missing directory is not an error.
fn absent(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn read(path: &Path) -> Option<Entry> {
    let is_entry = path.extension().is_some_and(|extension| extension == "json");
    is_entry.then(|| serde_json::from_slice(&fs::read(path).ok()?).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    struct Fixture {
        directory: tempfile::TempDir,
        registry: Registry,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let registry = Registry::of(&Cache::at(directory.path())).unwrap();
            Fixture { directory, registry }
        }

        fn add(&self, pid: u32, port: u16) -> Entry {
            let storage = self.directory.path().join(port.to_string());
            fs::create_dir(&storage).unwrap();
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            self.registry.add(pid, address, Some(Profile::Journaled), storage, true, None).unwrap()
        }
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn a_server_is_listed_until_it_is_stopped() {
        let fixture = Fixture::new();
        let mut process = sleeper();
        let entry = fixture.add(process.id(), 27_001);
        assert_eq!(fixture.registry.running().unwrap(), std::slice::from_ref(&entry));
        assert_eq!(fixture.registry.stop(&entry, Duration::from_secs(10)).unwrap(), Ending::Graceful);
        process.wait().unwrap();
        assert_eq!(fixture.registry.running().unwrap(), []);
        assert!(!entry.storage.exists());
    }

    #[test]
    fn an_ended_server_is_removed_from_the_registry() {
        let fixture = Fixture::new();
        let mut process = sleeper();
        let entry = fixture.add(process.id(), 27_002);
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(fixture.registry.running().unwrap(), []);
        assert!(!entry.storage.exists());
    }

    #[test]
    fn another_process_with_the_same_id_is_never_signalled() {
        let fixture = Fixture::new();
        let mut process = sleeper();
        let entry = fixture.add(process.id(), 27_003);
        let old = Entry { started_ticks: entry.started_ticks - 1, ..entry };
        assert_eq!(fixture.registry.stop(&old, Duration::ZERO).unwrap(), Ending::Graceful);
        assert!(process.try_wait().unwrap().is_none());
        process.kill().unwrap();
        process.wait().unwrap();
    }

    #[test]
    fn an_invalid_file_is_skipped() {
        let fixture = Fixture::new();
        fs::write(fixture.registry.directory().join("1.json"), "{").unwrap();
        assert_eq!(fixture.registry.running().unwrap(), []);
    }
}
