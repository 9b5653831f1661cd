//! Sends commands to a server in tests: a small blocking client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bson::{Document, RawDocument};
use plimsoll_wire::frame::{self, Message};

/// The request ID of every request.
const REQUEST_ID: i32 = 7;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    pub(crate) fn of(address: SocketAddr) -> Self {
        Client { stream: TcpStream::connect(address).unwrap() }
    }

    pub(crate) fn send(&mut self, flags: u32, body: &RawDocument) {
        let mut out = Vec::new();
        let at = frame::start(&mut out, REQUEST_ID, 0, flags);
        out.extend_from_slice(body.as_bytes());
        frame::finish(&mut out, at);
        self.stream.write_all(&out).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Document {
        let mut bytes = vec![0; 4];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes.resize(frame::claimed_len(&bytes, frame::LEN_MAX).unwrap().unwrap(), 0);
        self.stream.read_exact(&mut bytes[4..]).unwrap();
        Document::try_from(Message::parse_reply(&bytes, REQUEST_ID).unwrap().body).unwrap()
    }

    pub(crate) fn ask(&mut self, body: &RawDocument) -> Document {
        self.send(0, body);
        self.receive()
    }
}
