//! Simulates a server: it does the handshake, and then follows the test's script.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_wire::{Message, frame};

/// The server's side of a connection to one client.
pub struct Peer {
    stream: TcpStream,
}

/// Listens, and runs `act` for the first client on its own thread. Returns `host:port`.
pub fn serve(act: impl FnOnce(Peer) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        act(Peer { stream });
    });
    address
}

/// As [`serve`], after the handshake.
pub fn serve_greeted(act: impl FnOnce(Peer) + Send + 'static) -> String {
    serve(|mut peer| {
        let (request_id, _) = peer.request();
        peer.reply(request_id, &hello());
        act(peer);
    })
}

/// The reply of a current server to `hello`.
pub fn hello() -> RawDocumentBuf {
    rawdoc! {"isWritablePrimary": true, "maxWireVersion": 21, "ok": 1.0}
}

/// The bytes of a reply on the wire.
pub fn message(response_to: i32, body: &RawDocument) -> Vec<u8> {
    let mut bytes = Vec::new();
    let at = frame::start(&mut bytes, 1, response_to, 0);
    bytes.extend_from_slice(body.as_bytes());
    frame::finish(&mut bytes, at);
    bytes
}

impl Peer {
    /// Reads one uncompressed request. Returns its id and its bytes.
    pub fn request(&mut self) -> (i32, Vec<u8>) {
        let bytes = self.bytes();
        (Message::parse(&bytes).unwrap().request_id, bytes)
    }

    /// Reads the bytes of one request of any kind.
    pub fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        self.stream.read_exact(&mut bytes).unwrap();
        let len = i32::from_le_bytes(bytes[..4].try_into().unwrap());
        bytes.resize(len as usize, 0);
        self.stream.read_exact(&mut bytes[4..]).unwrap();
        bytes
    }

    /// Answers a request.
    pub fn reply(&mut self, request_id: i32, body: &RawDocument) {
        self.send(&message(request_id, body));
    }

    /// Sends any bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Waits until the client closes the connection.
    pub fn stay_silent(mut self) {
        let _ = self.stream.read_to_end(&mut Vec::new());
    }
}
