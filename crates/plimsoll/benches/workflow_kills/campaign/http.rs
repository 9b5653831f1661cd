//! Sends requests to several services, and retries until a service acknowledges.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use plimsoll_measure::clock::{self, SECOND_NS};

/// The time limit of one attempt: a paused service never answers.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The time limit of all attempts, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;
/// The pause after a failed attempt.
const PAUSE: Duration = Duration::from_millis(20);
/// The largest number of bytes that are read of an answer's body.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A client of services on the same store.
pub struct Http {
    services: Vec<SocketAddr>,
    current: usize,
    connection: Option<BufReader<TcpStream>>,
}

impl Http {
    /// A client that begins with one of the services.
    pub fn of(services: &[SocketAddr], first: usize) -> Self {
        Self { services: services.to_vec(), current: first % services.len().max(1), connection: None }
    }

    /// Sends a `PUT` until it is acknowledged. Every attempt has the same id, so repetitions change nothing.
    ///
    /// # Errors
    /// No service acknowledged in time; the error contains the last answer.
    pub fn put(&mut self, path: &str, body: &str) -> anyhow::Result<()> {
        let began = clock::now();
        loop {
            let failure = match self.attempt("PUT", path, body) {
                Ok((200 | 201, _)) => return Ok(()),
                Ok((status, answer)) => format!("{status} {answer}"),
                Err(error) => error.to_string(),
            };
            if clock::now().since(began) >= PATIENCE_NS {
                bail!("no service acknowledged PUT {path} within {} s: {failure}", PATIENCE_NS / SECOND_NS);
            }
            self.connection = None;
            self.current = (self.current + 1) % self.services.len().max(1);
            thread::sleep(PAUSE);
        }
    }

    /// Reads a page, once.
    ///
    /// # Errors
    /// The service does not answer, or refuses.
    pub fn get(&mut self, path: &str) -> anyhow::Result<String> {
        match self.attempt("GET", path, "")? {
            (200, body) => Ok(body),
            (status, body) => bail!("GET {path}: {status} {body}"),
        }
    }

    fn attempt(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
        let open = match self.connection.take() {
            Some(open) => open,
            None => connect(self.services[self.current])?,
        };
        let connection = self.connection.insert(open);
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: kills\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        connection.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        answer(connection)
    }
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ATTEMPT))?;
    stream.set_write_timeout(Some(ATTEMPT))?;
    Ok(BufReader::new(stream))
}

/// The status and the body of an answer with a length.
fn answer(connection: &mut BufReader<TcpStream>) -> io::Result<(u16, String)> {
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("content-length:") {
            length = rest.trim().parse().unwrap_or(0).min(BODY_BYTES_MAX);
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
