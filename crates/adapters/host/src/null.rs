//! Runs the null server: it acknowledges everything immediately and stores nothing.
//!
//! A load against it reaches the ceiling of the tool. A freeze makes the server stall, for the self-test of response times.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::rawdoc;
use plimsoll_measure::clock::{self, Instant};

use crate::serve::reply::{self, Batch};
use crate::serve::{AnswerDelay, Listener, Request, Service, common};

pub use crate::serve::Error;

/// The approximate size of an answer without the text of its document, in bytes.
const ANSWER_BYTES: usize = 120;

/// Settings of a null server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The delay of each answer. The kernel adds about 60 µs unless the delay is zero.
    pub delay: Duration,
    /// The size of an answer with documents, in bytes. By default such an answer is empty.
    pub answer_bytes: usize,
}

/// A null server on a free port of 127.0.0.1. Dropping it closes its connections and ends its threads.
#[derive(Debug)]
pub struct Server {
    listener: Listener<Null>,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// [`Error`] if no port is available.
    pub fn start(options: Options) -> Result<Self, Error> {
        Ok(Server {
            listener: Listener::open(Null::new(options.answer_bytes), AnswerDelay::new(options.delay))?,
        })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The number of documents acknowledged as written so far.
    pub fn acknowledged(&self) -> u64 {
        self.listener.service().acknowledged.load(Ordering::Relaxed)
    }

    /// Withholds all answers for `length` from now on.
    pub fn freeze(&self, length: Duration) {
        self.freeze_from(clock::now(), length);
    }

    /// Withholds all answers for `length` from the moment `from` on. A new freeze replaces an earlier one.
    pub fn freeze_from(&self, from: Instant, length: Duration) {
        self.listener.answer_delay().freeze(from, length);
    }
}

#[derive(Debug, Default)]
struct Null {
    acknowledged: AtomicU64,
    /// The document in each answer to `find` and `aggregate`, as BSON. If empty, these answers contain no
    /// document.
    document: Vec<u8>,
}

impl Service for Null {
    fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        match request.name {
            "insert" => reply::counted(out, self.acknowledge(request.count("documents"))),
            "update" => reply::modified(out, self.acknowledge(request.count("updates"))),
            "delete" => reply::counted(out, self.acknowledge(request.count("deletes"))),
            "find" | "aggregate" => self.batch(out, request),
            "listCollections" | "listIndexes" => empty(out, "firstBatch", request),
            "getMore" => empty(out, "nextBatch", request),
            "count" => reply::counted(out, 0),
            name if is_done_by_doing_nothing(name) => reply::ok(out),
            _ => common::answer(request, "null server", out),
        }
    }
}

impl Null {
    fn new(answer_bytes: usize) -> Self {
        let text = answer_bytes.checked_sub(ANSWER_BYTES).map(|bytes| "x".repeat(bytes));
        let document = text.map_or_else(Vec::new, |text| rawdoc! { "text": text }.into_bytes());
        Self { document, ..Self::default() }
    }

    fn batch(&self, out: &mut Vec<u8>, request: &Request<'_>) {
        let mut batch = Batch::begin(out, "firstBatch");
        if !self.document.is_empty() {
            batch.push(&self.document);
        }
        batch.finish(0, request.namespace());
    }

    fn acknowledge(&self, count: usize) -> usize {
        let documents = u64::try_from(count).unwrap_or(u64::MAX);
        self.acknowledged.fetch_add(documents, Ordering::Relaxed);
        count
    }
}

fn empty(out: &mut Vec<u8>, batch: &str, request: &Request<'_>) {
    Batch::begin(out, batch).finish(0, request.namespace());
}

fn is_done_by_doing_nothing(name: &str) -> bool {
    matches!(
        name,
        "create"
            | "createIndexes"
            | "drop"
            | "dropDatabase"
            | "killCursors"
            | "commitTransaction"
            | "abortTransaction"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::client::Client;
    use bson::{doc, rawdoc};
    use plimsoll_measure::clock::MILLISECOND_NS;
    use plimsoll_wire::frame;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn start() -> Server {
        Server::start(Options::default()).unwrap()
    }

    #[test]
    fn every_document_is_acknowledged_and_counted() {
        let server = start();
        let mut client = Client::of(server.address());
        let insert = rawdoc! {"insert": "c", "documents": [{"x": 1}, {"x": 2}], "$db": "d"};
        assert_eq!(client.ask(&insert), doc! {"n": 2, "ok": 1.0});
        let update = rawdoc! {"update": "c", "updates": [{"q": {}, "u": {}}], "$db": "d"};
        assert_eq!(client.ask(&update), doc! {"n": 1, "nModified": 1, "ok": 1.0});
        assert_eq!(server.acknowledged(), 3);
    }

    #[test]
    fn a_find_is_empty() {
        let server = start();
        let reply = Client::of(server.address()).ask(&rawdoc! {"find": "c", "$db": "d"});
        assert_eq!(reply, doc! {"cursor": {"firstBatch": [], "id": 0_i64, "ns": "d.c"}, "ok": 1.0});
    }

    #[test]
    fn an_answer_with_documents_has_the_asked_size() {
        let find = rawdoc! {"find": "c", "$db": "d"};
        for answer_bytes in [200, 100_000] {
            let server = Server::start(Options { answer_bytes, ..Options::default() }).unwrap();
            let reply = Client::of(server.address()).ask(&find);
            let length = bson::serialize_to_vec(&reply).unwrap().len();
            assert!(length.abs_diff(answer_bytes) < 40, "{length} for {answer_bytes}");
        }
    }

    #[test]
    fn a_command_without_acknowledgement_gets_no_answer() {
        let server = start();
        let mut client = Client::of(server.address());
        client.send(frame::MORE_TO_COME, &rawdoc! {"insert": "c", "documents": [{"x": 1}], "$db": "d"});
        let hello = client.ask(&rawdoc! {"hello": 1, "$db": "admin"});
        assert!(hello.get_bool("isWritablePrimary").unwrap());
        assert_eq!(server.acknowledged(), 1);
    }

    #[test]
    fn an_unknown_command_is_refused_by_its_code() {
        let server = start();
        let reply = Client::of(server.address()).ask(&rawdoc! {"conjure": 1, "$db": "d"});
        assert_eq!(reply.get_i32("code").unwrap(), 59);
    }

    #[test]
    fn a_freeze_withholds_answers() {
        let server = start();
        let mut client = Client::of(server.address());
        let before = clock::now();
        server.freeze(Duration::from_millis(80));
        client.ask(&rawdoc! {"ping": 1, "$db": "admin"});
        assert!(clock::now().since(before) >= 80 * MILLISECOND_NS);
    }

    #[test]
    fn invalid_bytes_close_only_their_own_connection() {
        let server = start();
        let mut good = Client::of(server.address());
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[30, 0, 0, 0, 1, 1, 1, 1]] {
            let mut hostile = TcpStream::connect(server.address()).unwrap();
            hostile.write_all(bytes).unwrap();
            hostile.shutdown(std::net::Shutdown::Write).unwrap();
            // The connection closes, with or without a reset.
            assert_eq!(hostile.read(&mut [0; 64]).unwrap_or(0), 0);
        }
        assert_eq!(good.ask(&rawdoc! {"ping": 1, "$db": "admin"}).get_f64("ok").unwrap(), 1.0);
    }

    #[test]
    fn a_dropped_server_closes_its_connections_even_in_a_freeze() {
        let server = start();
        let mut client = Client::of(server.address());
        client.ask(&rawdoc! {"ping": 1, "$db": "admin"});
        server.freeze(Duration::from_secs(3600));
        client.send(0, &rawdoc! {"ping": 1, "$db": "admin"});
        drop(server);
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
        assert!(client.stream.write_all(&[0; 1 << 20]).is_err());
    }
}
