//! Runs a service as a child process on a fixed port: starts, pauses, kills, restarts and stops it.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_process::{Child, Deadline, Error, Launch, Lifetime, Program, port};

/// The time limit of a start, in which the service opens its database, and the interval at which the log is
/// polled.
const DEADLINE: Deadline = Deadline { limit: Duration::from_secs(60), poll_every: Duration::from_millis(5) };
/// The time limit of a graceful stop.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Settings of a service.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub program: PathBuf,
    /// The arguments; `--listen ADDRESS` is added.
    pub args: Vec<OsString>,
    /// The file of the service's output.
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
    /// Starts a service on a free port of 127.0.0.1 and waits until its log shows that it listens.
    ///
    /// # Errors
    /// [`Error`], with the last lines of the log.
    pub fn start(options: Options) -> Result<Self, Error> {
        let [port] = port::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let child = launch(&options, address)?;
        Ok(Self { options, address, child })
    }

    /// The listening address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The ID of the current or last process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Kills the process (`SIGKILL`).
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn kill(&self) -> Result<(), Error> {
        self.child.kill()
    }

    /// Kills the process and starts it again on the same port.
    ///
    /// # Errors
    /// [`Error`], with the last lines of the log.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.kill()?;
        self.child = launch(&self.options, self.address)?;
        Ok(())
    }

    /// Pauses the process (`SIGSTOP`).
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn pause(&self) -> Result<(), Error> {
        self.child.pause()
    }

    /// Resumes the process (`SIGCONT`).
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn resume(&self) -> Result<(), Error> {
        self.child.resume()
    }

    /// Stops the process (`SIGTERM`) and waits 30 s at most; true if it ended.
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

/// Whether one of the lines ends with the service's URL.
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
    fn a_killed_service_restarts_on_the_same_address() {
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
    fn a_service_ends_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let service = Service::start(options(directory.path(), LISTENS)).unwrap();
        let pid = service.pid();
        drop(service);
        assert!(!process::is_alive(pid));
    }

    #[test]
    fn a_service_that_ends_at_once_reports_its_last_lines() {
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
