//! Implements a plain HTTP/1.1 client for tests.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection.
pub struct Client {
    stream: TcpStream,
    read: Vec<u8>,
    /// The token of every request.
    pub token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The head; the service writes names in lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{} {text}", self.status))
    }

    /// The body, if the answer has this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new(), token: None }
    }

    /// A client that has logged in.
    pub async fn user(address: SocketAddr, name: &str) -> Self {
        let mut client = Self::connect(address).await;
        let body = serde_json::json!({"username": name, "password": format!("{name}-secret")});
        let session = client.post("/api/v3/auth/login", &body).await.is(201);
        client.token = session["access_token"].as_str().map(str::to_owned);
        client
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes()).await
    }

    pub async fn patch(&mut self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.send("PATCH", path, headers, body.to_string().as_bytes()).await
    }

    pub async fn put(&mut self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[], body.to_string().as_bytes()).await
    }

    pub async fn delete(&mut self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"").await
    }

    /// Sends a request and reads its answer.
    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n");
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        if method != "GET" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        self.stream.write_all(&[format!("{head}\r\n").as_bytes(), body].concat()).await.unwrap();
        self.answer().await
    }

    /// Sends the head of a stream of lines and some of them, and leaves it open.
    pub async fn begin(&mut self, path: &str, lines: &str) {
        let token = self.token.as_deref().unwrap_or_default();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\n\
             content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.piece(lines).await;
    }

    /// Sends more lines of an open stream; nothing ends it.
    pub async fn piece(&mut self, lines: &str) {
        self.stream.write_all(format!("{:x}\r\n{lines}\r\n", lines.len()).as_bytes()).await.unwrap();
    }

    /// Reads an answer.
    pub async fn answer(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|it| it == b"\r\n\r\n") {
                break at;
            }
            self.more().await;
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |it| it.parse().unwrap());
        while self.read.len() < length {
            self.more().await;
        }
        Answer { status, head, body: self.read.drain(..length).collect() }
    }

    async fn more(&mut self) {
        let mut buffer = [0; 16 << 10];
        let bytes = self.stream.read(&mut buffer).await.unwrap();
        assert!(bytes > 0, "the connection ended early");
        self.read.extend_from_slice(&buffer[..bytes]);
    }
}

/// A text in a path or a query.
pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
