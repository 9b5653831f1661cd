//! Measures how fast the in-process servers take documents from one blocking client: `cargo bench -p
//! plimsoll-host`.
//!
//! Goal: the null server takes well over 1 M small documents/s in batches of 1000 over one connection, and
//! the faulty server takes 1 M documents in seconds. So neither limits a self-test. No goal: many
//! connections, large documents. The client sends the same bytes again and again; the faulty server gets a
//! new `_id` patched into each document.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bson::{RawDocumentBuf, rawdoc};
use plimsoll_host::{faulty, null};
use plimsoll_measure::clock;
use plimsoll_wire::frame;

const BATCH: usize = 1000;

/// One insert, with the positions of the last eight bytes of each document's `_id`.
struct Insert {
    bytes: Vec<u8>,
    ids: Vec<usize>,
}

impl Insert {
    fn new(batch: usize) -> Self {
        let document =
            rawdoc! { "_id": bson::oid::ObjectId::from_bytes([0; 12]), "n": 1_i64, "note": "x".repeat(100) };
        let mut bytes = Vec::new();
        let at = frame::start(&mut bytes, 1, 0, 0);
        bytes
            .extend_from_slice(rawdoc! { "insert": "bench", "ordered": false, "$db": "plimsoll" }.as_bytes());
        let ids = section(&mut bytes, &document, batch);
        frame::finish(&mut bytes, at);
        Insert { bytes, ids }
    }

    fn number(&mut self, first: u64) {
        for (number, &place) in (first..).zip(&self.ids) {
            self.bytes[place..place + 8].copy_from_slice(&number.to_be_bytes());
        }
    }
}

fn section(out: &mut Vec<u8>, document: &RawDocumentBuf, count: usize) -> Vec<usize> {
    const NAME: &[u8] = b"documents\0";
    let document = document.as_bytes();
    let len = i32::try_from(4 + NAME.len() + count * document.len()).unwrap_or(i32::MAX);
    out.push(1);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(NAME);
    let mut ids = Vec::new();
    for _ in 0..count {
        // The last eight bytes of an `_id` follow the document's length, the element's type, `_id` with its NUL, and four bytes
        // that stay zero.
        ids.push(out.len() + 4 + 1 + 4 + 4);
        out.extend_from_slice(document);
    }
    ids
}

/// Sends `rounds` inserts, one after the other, and returns the answered inserts per second.
fn per_second(address: SocketAddr, insert: &mut Insert, rounds: u64) -> Result<f64, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let batch = u64::try_from(insert.ids.len())?;
    let mut reply = vec![0; 64 * 1024];
    let start = clock::now();
    for round in 0..rounds {
        insert.number(round * batch);
        stream.write_all(&insert.bytes)?;
        let got = stream.read(&mut reply)?;
        if frame::claimed_len(&reply[..got], reply.len())? != Some(got) {
            return Err("the answer is incomplete".into());
        }
    }
    Ok(rounds as f64 * 1e9 / clock::now().since(start) as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` requests a small run.
    let small = std::env::args().any(|argument| argument == "--test");
    let rounds = if small { 10 } else { 5000 };
    let null = null::Server::start(null::Options::default())?;
    let batches = per_second(null.address(), &mut Insert::new(BATCH), rounds)?;
    println!("null server:  {:>10.0} documents/s, {BATCH} an insert", batches * BATCH as f64);
    let singles = per_second(null.address(), &mut Insert::new(1), rounds * 10)?;
    println!("null server:  {singles:>10.0} documents/s, one an insert");
    let faulty = faulty::Server::start(faulty::Options::default())?;
    let batches = per_second(faulty.address(), &mut Insert::new(BATCH), rounds / 5)?;
    println!("faulty server: {:>10.0} documents/s, {BATCH} an insert", batches * BATCH as f64);
    Ok(())
}
