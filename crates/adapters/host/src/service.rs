//! Runs a service as a child process on a fixed port: starts, pauses, kills, restarts and stops it.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_process::{Child, Deadline, Error, Launch, Lifetime, Program, port};

/// The limit of a start, in which it opens its database, and the pause between two looks at the log.
const DEADLINE: Deadline = Deadline { limit: Duration::from_secs(60), poll_every: Duration::from_millis(5) };
/// The limit of a graceful end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// How to run a service.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; `--listen ADDRESS` is added.
    pub args: Vec<OsString>,
    /// The file of its output.
    pub log: PathBuf,
}

/// A running or killed service. Dropping it ends the process.
#[derive(Debug)]
pub struct Service {
    options: Options,
    address: SocketAddr,
    child: Child,
}

impl Service {
    /// Starts it on a free port of 127.0.0.1 and waits until its log shows that it listens.
    ///
    /// # Errors
    /// [`Error`], with the last lines of its log.
    pub fn start(options: Options) -> Result<Self, Error> {
        let [port] = port::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let child = launch(&options, address)?;
        Ok(Self { options, address, child })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The ID of its current or last process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Kills it (`SIGKILL`).
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn kill(&self) -> Result<(), Error> {
        self.child.kill()
    }

    /// Kills it and starts it again on the same port.
    ///
    /// # Errors
    /// [`Error`], with the last lines of its log.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.kill()?;
        self.child = launch(&self.options, self.address)?;
        Ok(())
    }

    /// Pauses it (`SIGSTOP`).
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn pause(&self) -> Result<(), Error> {
        self.child.pause()
    }

    /// Resumes it (`SIGCONT`).
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn resume(&self) -> Result<(), Error> {
        self.child.resume()
    }

    /// Asks it to end (`SIGTERM`) and waits 30 s at most; true if it ended.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn terminate(&self) -> Result<bool, Error> {
        self.child.terminate(END_LIMIT)
    }
}

fn launch(options: &Options, address: SocketAddr) -> Result<Child, Error> {
    let mut args = options.args.clone();
    args.extend([OsString::from("--listen"), OsString::from(address.to_string())]);
    let (path, log) = (options.program.clone(), options.log.clone());
    let directory = log.parent().unwrap_or(Path::new(".")).to_owned();
    let program = Program { name: "the service", path, args, log, directory, hidden_variables: &[] };
    let (lifetime, now_ns) = (Lifetime::Bound, || clock::now().as_ns());
    let launch = Launch { program: &program, lock: None, lifetime, deadline: DEADLINE, now_ns };
    let (child, ()) = launch.until(&mut |lines| is_ready(lines, address).then_some(()))?;
    Ok(child)
}

/// Whether one of the lines ends with its URL.
fn is_ready(lines: &str, address: SocketAddr) -> bool {
    lines.contains(&format!("://{address}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use std::fs;

    fn options(directory: &Path, script: &str) -> Options {
        let args = ["-c", script, "sh"].map(OsString::from).to_vec();
        Options { program: "/bin/sh".into(), args, log: directory.join("service.log") }
    }

    const LISTENS: &str = "echo http://$2; exec sleep 60";

    #[test]
    fn it_is_started_killed_and_started_again_where_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let mut service = Service::start(options(directory.path(), LISTENS)).unwrap();
        let (address, pid) = (service.address(), service.pid());
        service.kill().unwrap();
        assert!(!process::is_alive(pid));
        service.restart().unwrap();
        assert_eq!(service.address(), address);
        let log = fs::read_to_string(directory.path().join("service.log")).unwrap();
        assert_eq!(log, format!("http://{address}\n").repeat(2));
    }

    #[test]
    fn it_ends_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let service = Service::start(options(directory.path(), LISTENS)).unwrap();
        let pid = service.pid();
        drop(service);
        assert!(!process::is_alive(pid));
    }

    #[test]
    fn one_that_ends_at_once_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let error = Service::start(options(directory.path(), "echo no database; exit 4")).unwrap_err();
        assert!(error.to_string().contains("no database"), "{error}");
    }

    #[test]
    fn only_its_own_url_counts() {
        let address = "127.0.0.1:80".parse().unwrap();
        assert!(is_ready("opened\nhttp://127.0.0.1:80\n", address));
        assert!(!is_ready("http://127.0.0.1:8080\n", address));
        assert!(!is_ready("", address));
    }
}
