//! Runs a service as a process, with a client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{plimsoll, shared};

/// The time limit of every wait, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service as a process; dropping it ends the process.
pub struct Service {
    pub process: Child,
    pub address: String,
}

impl Service {
    /// Starts a service and waits for its address.
    pub fn start(args: &[&str]) -> Self {
        Self::of("telemetry", args)
    }

    /// Starts the service with this name and waits for its address.
    pub fn of(name: &str, args: &[&str]) -> Self {
        Self::at("127.0.0.1:0", name, args)
    }

    /// Starts a service that listens on an address.
    pub fn at(listen: &str, name: &str, args: &[&str]) -> Self {
        let mut process = plimsoll()
            .args(["serve", name, "--listen", listen])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let address = url.trim().split_once("://").unwrap_or_else(|| panic!("no URL but `{url}`")).1;
        Self { process, address: address.to_owned() }
    }

    pub fn on_shared(database: &str) -> Self {
        Self::start(&["--server", &shared(), "--set", &format!("database.name={database}")])
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().unwrap();
    }
}

/// An HTTP/1.1 connection.
pub struct Client(pub BufReader<TcpStream>);

impl Client {
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    pub fn send(&mut self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, Value)> {
        self.send_with("", method, path, body)
    }

    /// Sends a request with further headers, each with its line break.
    pub fn send_with(
        &mut self,
        headers: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> std::io::Result<(u16, Value)> {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        self.0.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        self.answer()
    }

    pub fn answer(&mut self) -> std::io::Result<(u16, Value)> {
        self.text().map(|(status, text)| (status, serde_json::from_str(&text).unwrap_or_default()))
    }

    /// The status and the body of the next answer.
    pub fn text(&mut self) -> std::io::Result<(u16, String)> {
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if line.trim().is_empty() {
                break;
            }
            if line.starts_with("HTTP/1.1 ") {
                status = line[9..12].parse().unwrap();
            } else if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    pub fn get(&mut self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, "").unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }
}
