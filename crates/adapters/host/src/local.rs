//! Controls a server process that this process started: restarts, pauses, kills and stops it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_measure::environment::{ServerFacts, ServerKind};
use plimsoll_process::{Child, Ending, Error, Lifetime, procfs};

use crate::home::{Home, Storage};
use crate::launch_spec::{LaunchSpec, NAME, Profile, launch};
use crate::power;
use crate::snapshots::Snapshots;

/// The time of a graceful stop that flushes all data.
const FLUSH: Duration = Duration::from_secs(60);

/// A server that this process started, running or stopped. Dropping it, also by a panic, ends the process and
/// removes temporary storage.
#[derive(Debug)]
pub struct Server {
    spec: LaunchSpec,
    address: SocketAddr,
    // Fields are dropped in this order: the process must end before its storage is removed.
    child: Option<Child>,
    home: Home,
}

impl Server {
    /// Starts a server on `port` (0 selects any free port) and waits until it listens.
    pub(crate) fn start(spec: LaunchSpec, storage: &Storage, port: u16) -> Result<Self, Error> {
        let home = Home::open(storage, &std::env::temp_dir())?;
        let lifetime = if home.is_temporary() { Lifetime::Bound } else { Lifetime::BoundWithData };
        let (child, address) = launch(&spec, &home, port, lifetime)?;
        Ok(Server { spec, address, child: Some(child), home })
    }

    /// Starts a server that outlives this process. Returns its process ID, address and home.
    pub(crate) fn start_detached(
        spec: &LaunchSpec,
        storage: &Storage,
        port: u16,
        parent: &Path,
    ) -> Result<(u32, SocketAddr, PathBuf), Error> {
        let home = Home::open(storage, parent)?;
        let (child, address) = launch(spec, &home, port, Lifetime::Detached)?;
        Ok((child.release(), address, home.keep()))
    }

    /// The listening address; a restart keeps it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The kind of the server.
    pub fn kind(&self) -> ServerKind {
        self.spec.kind
    }

    /// Its durability profile, for an embedded server.
    pub fn profile(&self) -> Option<Profile> {
        self.spec.profile
    }

    /// The process ID of a running server.
    pub fn pid(&self) -> Option<u32> {
        self.running().ok().map(Child::pid)
    }

    /// Whether its process lives.
    pub fn is_running(&self) -> bool {
        self.pid().is_some_and(procfs::is_alive)
    }

    /// The directory of the server's data, log and lock.
    pub fn storage(&self) -> &Path {
        self.home.path()
    }

    /// The file of the server's output.
    pub fn log(&self) -> PathBuf {
        self.home.log()
    }

    /// Adds the facts that only the starter knows: kind, profile and product.
    pub fn describe(&self, facts: &mut ServerFacts) {
        facts.kind = self.spec.kind;
        facts.profile = self.spec.profile.map(|profile| profile.name().to_owned());
        if self.spec.product.is_some() {
            facts.product.clone_from(&self.spec.product);
        }
    }

    /// Stops the server gracefully, and kills it after `limit`. A server that does not run counts as ended
    /// gracefully.
    ///
    /// # Errors
    /// [`Error::Signal`] if the process can be neither stopped nor killed.
    pub fn stop(&mut self, limit: Duration) -> Result<Ending, Error> {
        let Some(child) = self.child.take_if(|child| child.ended().is_none()) else {
            return Ok(Ending::Graceful);
        };
        child.stop(limit)
    }

    /// Kills the server as `kill -9` does: nothing is flushed. The storage stays for [`Server::restart`].
    ///
    /// # Errors
    /// [`Error::NotRunning`]; [`Error::Signal`] if the process does not die.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.running()?.kill()
    }

    /// Cuts the power: kills the server, and takes back every write that it has not synced. The storage stays for [`Server::restart`].
    ///
    /// # Errors
    /// [`Error::NoPowerLoss`] if the server was not started for it; [`Error::Signal`]; [`Error::Home`] if the storage cannot be changed.
    pub fn lose_power(&mut self) -> Result<(), Error> {
        if self.spec.power.is_none() {
            return Err(Error::NoPowerLoss { name: NAME });
        }
        match self.kill() {
            Ok(()) | Err(Error::NotRunning { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(power::lose(self.home.path(), &self.home.data())?)
    }

    /// Pauses the process, connections open, like a machine that hangs.
    ///
    /// # Errors
    /// [`Error::NotRunning`]; [`Error::Signal`] if the process cannot be signalled.
    pub fn pause(&self) -> Result<(), Error> {
        self.running()?.pause()
    }

    /// Resumes the process after [`Server::pause`].
    ///
    /// # Errors
    /// [`Error::NotRunning`]; [`Error::Signal`] if the process cannot be signalled.
    pub fn resume(&self) -> Result<(), Error> {
        self.running()?.resume()
    }

    /// Restarts the server on the same storage and address; stops a running server first (within 10 s).
    ///
    /// # Errors
    /// Those of a start: another program may have taken the port meanwhile.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop(Duration::from_secs(10))?;
        let lifetime = if self.home.is_temporary() { Lifetime::Bound } else { Lifetime::BoundWithData };
        let (child, _) = launch(&self.spec, &self.home, self.address.port(), lifetime)?;
        self.child = Some(child);
        Ok(())
    }

    /// Stops the server (within 60 s, then kills it) and moves its storage to `to`, which must not exist.
    /// [`Storage::At`] starts a server there again.
    ///
    /// # Errors
    /// [`Error::Home`] if the storage cannot be moved; temporary storage is then lost.
    pub fn keep_storage(mut self, to: &Path) -> Result<PathBuf, Error> {
        self.stop(FLUSH)?;
        power::forget(self.home.path())?;
        Ok(self.home.move_to(to)?)
    }

    /// Copies the data to the snapshot `key`, and restarts the server. Returns the reason if there is no snapshot: the server has crashed, it
    /// did not stop within 60 s and was killed, or the data cannot be copied.
    ///
    /// # Errors
    /// Those of [`Server::restart`].
    pub fn take_snapshot(&mut self, snapshots: &Snapshots, key: &str) -> Result<Option<String>, Error> {
        let was_running = self.running().is_ok();
        let reason = match self.stop(FLUSH)? {
            Ending::Graceful if was_running => {
                snapshots.keep(key, &self.home.data()).err().map(|error| error.to_string())
            }
            _ => Some("the server did not stop by itself".to_owned()),
        };
        self.restart()?;
        Ok(reason)
    }

    /// Replaces the data with those of the snapshot `key`, and restarts the server. Without this snapshot the server stays as it is, and the
    /// answer is `false`.
    ///
    /// # Errors
    /// [`Error::Home`] if the data cannot be copied; those of [`Server::restart`].
    pub fn use_snapshot(&mut self, snapshots: &Snapshots, key: &str) -> Result<bool, Error> {
        if !snapshots.has(key) {
            return Ok(false);
        }
        self.stop(FLUSH)?;
        let is_replaced = snapshots.put(key, &self.home.data())?;
        self.restart()?;
        Ok(is_replaced)
    }

    fn running(&self) -> Result<&Child, Error> {
        self.child.as_ref().filter(|child| child.ended().is_none()).ok_or(Error::NotRunning { name: NAME })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn ready(line: &str, _: u16) -> Option<SocketAddr> {
        line.strip_prefix("listening on ")?.parse().ok()
    }

    /// A shell script that replaces a server and gets a server's arguments.
    fn spec(script: &str) -> LaunchSpec {
        LaunchSpec {
            kind: ServerKind::Embedded,
            profile: Some(Profile::Relaxed),
            product: None,
            program: "/bin/sh".into(),
            args: ["-c", script].map(OsString::from).to_vec(),
            data_option: Some("--data"),
            config_option: None,
            hidden_variables: &[],
            chooses_port: true,
            power: None,
            ready,
        }
    }

    #[test]
    fn a_start_ends_when_the_log_shows_the_address() {
        let script = "echo warming up; echo listening on 127.0.0.1:4242; exec sleep 60";
        let mut server = Server::start(spec(script), &Storage::Temporary, 0).unwrap();
        assert_eq!(server.address(), "127.0.0.1:4242".parse().unwrap());
        assert_eq!(server.stop(Duration::from_secs(10)).unwrap(), Ending::Graceful);
        assert_eq!(server.pid(), None);
        assert!(matches!(server.kill(), Err(Error::NotRunning { .. })));
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_last_lines() {
        let error = Server::start(spec("echo disk full >&2; exit 7"), &Storage::Temporary, 0).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("disk full") && text.contains('7'), "{text}");
    }

    #[test]
    fn a_server_that_ignores_the_stop_is_killed_after_the_limit() {
        let script = "trap '' TERM; echo listening on 127.0.0.1:1; while :; do sleep 0.02; done";
        let mut server = Server::start(spec(script), &Storage::Temporary, 0).unwrap();
        assert_eq!(server.stop(Duration::from_millis(50)).unwrap(), Ending::Killed);
    }

    #[test]
    fn a_restart_reads_only_the_new_part_of_the_log() {
        let script = "echo x >> data/starts; [ $(wc -l < data/starts) = 2 ] && exit 9; \
                      echo listening on 127.0.0.1:2; exec sleep 60";
        let mut server = Server::start(spec(script), &Storage::Temporary, 0).unwrap();
        assert!(matches!(server.restart(), Err(Error::Ended { .. })));
        server.restart().unwrap();
        assert!(server.pid().is_some());
    }
}
