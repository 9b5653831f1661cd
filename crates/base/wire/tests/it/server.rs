//! Starts the embedded server for tests. It ends with the last test that uses it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A server on its own port, with its own directory.
pub struct Server {
    child: Child,
    address: String,
    directory: tempfile::TempDir,
}

impl Server {
    /// The server that tests share; each test uses its own database.
    pub fn shared() -> Arc<Server> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start(&[]));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// Starts a server with more arguments than the port and the directory.
    pub fn start(arguments: &[&str]) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(binary())
            .args(["--port", "0", "--cache-size", "256M", "--storage-path"])
            .arg(directory.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            lines.find_map(|line| listening(&line.unwrap())).expect("the server says where it listens");
        // Keeps reading, so that the server never blocks on its output.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, address, directory }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Kills the server and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(self.directory.path());
    }
}

fn listening(line: &str) -> Option<String> {
    line.split_once("listening on ").map(|(_, address)| address.trim().to_owned())
}

fn binary() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap();
    let path = cache.join("plimsoll/secantus-mdb-0.5.3-beta.196/bin/secantusd-rs");
    assert!(path.is_file(), "no server at {}: run cargo xtask setup first", path.display());
    path
}
