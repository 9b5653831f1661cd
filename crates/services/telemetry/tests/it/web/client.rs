//! Implements a plain HTTP/1.1 client for tests.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::openapi_check;

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// One connection.
pub struct Client {
    pub stream: Box<dyn Stream>,
    read: Vec<u8>,
    /// The headers of every request.
    pub headers: Vec<(String, String)>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.text()))
    }

    /// The answer, which must have this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// The answer, which must be a problem with this status and every member of the RFC.
    #[track_caller]
    pub fn problem(self, status: u16) -> Value {
        let answer = self.is(status);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem = answer.json();
        assert!(problem["type"].as_str().unwrap().starts_with("urn:plimsoll:problem:"), "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(["title", "detail"].iter().all(|it| problem[it].as_str().is_some_and(|it| !it.is_empty())));
        problem
    }
}

impl Client {
    pub async fn connect(address: std::net::SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    pub fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), read: Vec::new(), headers: Vec::new() }
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    pub async fn post_text(&mut self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.as_bytes()).await
    }

    /// Sends a request and reads its answer.
    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_send(method, path, headers, body).await.unwrap()
    }

    /// Sends a request; an error if the connection ends early.
    pub async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Answer> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n");
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        own.chain(headers.iter().copied()).for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        if !body.is_empty() || method != "GET" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        let bytes = [format!("{head}\r\n").as_bytes(), body].concat();
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await?;
        let answer = self.answer().await?;
        openapi_check::check(method, path, answer.status, answer.header("content-type"));
        Ok(answer)
    }

    /// Reads an answer.
    pub async fn answer(&mut self) -> std::io::Result<Answer> {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|it| it == b"\r\n\r\n") {
                break at;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let mut answer = Answer { status, headers: lines.map(header).collect(), body: Vec::new() };
        let length = answer.header("content-length").map_or(0, |it| it.parse().unwrap());
        while self.read.len() < length {
            self.more().await?;
        }
        answer.body = self.read.drain(..length).collect();
        Ok(answer)
    }

    async fn more(&mut self) -> std::io::Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.read.extend_from_slice(&buffer[..bytes]);
                Ok(())
            }
        }
    }
}
