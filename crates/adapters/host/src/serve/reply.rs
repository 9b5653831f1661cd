//! Encodes answers.

use bson::{RawDocument, rawdoc};
use plimsoll_wire::frame;

use super::request::{Framing, Namespace, Request};

/// The opcode of OP_REPLY.
const OP_REPLY: i32 = 1;

/// Frames the answer that `write` appends to `out`, and removes an answer that the client does not want.
pub(crate) fn framed(request: &Request<'_>, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = match request.framing {
        Framing::Legacy => start_legacy(out, request.id),
        Framing::Message | Framing::Silent => frame::start(out, 0, request.id, 0),
    };
    write(out);
    frame::finish(out, at);
    if request.framing == Framing::Silent {
        out.truncate(at);
    }
}

/// Begins an OP_REPLY: header, response flags (8: can await), cursor, first document's number, number of
/// documents.
fn start_legacy(out: &mut Vec<u8>, response_to: i32) -> usize {
    let at = out.len();
    for number in [0, 0, response_to, OP_REPLY, 8, 0, 0, 0, 1] {
        out.extend_from_slice(&i32::to_le_bytes(number));
    }
    at
}

/// `{ok: 1.0}`.
pub(crate) fn ok(out: &mut Vec<u8>) {
    append(out, &rawdoc! { "ok": 1.0 });
}

/// Appends a whole answer.
pub(crate) fn append(out: &mut Vec<u8>, answer: &RawDocument) {
    out.extend_from_slice(answer.as_bytes());
}

/// `{n: count, ok: 1.0}`, without allocating.
pub(crate) fn counted(out: &mut Vec<u8>, count: usize) {
    let at = start(out);
    int32(out, "n", count);
    double(out, "ok", 1.0);
    end(out, at);
}

/// `{n: count, nModified: count, ok: 1.0}`, without allocating.
pub(crate) fn modified(out: &mut Vec<u8>, count: usize) {
    let at = start(out);
    int32(out, "n", count);
    int32(out, "nModified", count);
    double(out, "ok", 1.0);
    end(out, at);
}

/// Refuses the whole command.
pub(crate) fn error(out: &mut Vec<u8>, code: i32, name: &str, message: &str) {
    append(out, &rawdoc! { "ok": 0.0, "errmsg": message, "code": code, "codeName": name });
}

/// MongoDB's error for a command that a server does not know.
pub(crate) fn unknown(out: &mut Vec<u8>, name: &str) {
    error(out, 59, "CommandNotFound", &format!("no such command: '{name}'"));
}

/// A batch of documents, `{cursor: {firstBatch: […], id, ns}, ok: 1.0}`, which is encoded while the documents
/// arrive.
pub(crate) struct Batch<'a> {
    out: &'a mut Vec<u8>,
    answer: usize,
    cursor: usize,
    array: usize,
    count: usize,
}

impl<'a> Batch<'a> {
    /// Begins a batch with the name `firstBatch` or `nextBatch`.
    pub(crate) fn begin(out: &'a mut Vec<u8>, name: &str) -> Self {
        let answer = start(out);
        key(out, 0x03, "cursor");
        let cursor = start(out);
        key(out, 0x04, name);
        let array = start(out);
        Batch { out, answer, cursor, array, count: 0 }
    }

    /// Appends one document.
    pub(crate) fn push(&mut self, document: &[u8]) {
        self.out.push(0x03);
        decimal(self.out, self.count);
        self.out.push(0);
        self.out.extend_from_slice(document);
        self.count += 1;
    }

    /// The size of the documents so far, in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        self.out.len() - self.array
    }

    /// The number of documents so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Ends the batch; `id` 0 means that no documents remain.
    pub(crate) fn finish(self, id: i64, namespace: Namespace<'_>) {
        end(self.out, self.array);
        key(self.out, 0x12, "id");
        self.out.extend_from_slice(&id.to_le_bytes());
        string(self.out, "ns", &[namespace.database, ".", namespace.collection]);
        end(self.out, self.cursor);
        double(self.out, "ok", 1.0);
        end(self.out, self.answer);
    }
}

fn start(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    at
}

fn end(out: &mut Vec<u8>, at: usize) {
    out.push(0);
    let len = int(out.len() - at);
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

/// Converts a length or a count of an answer. The limits on messages keep both far below 2^31.
fn int(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn key(out: &mut Vec<u8>, kind: u8, name: &str) {
    out.push(kind);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

fn int32(out: &mut Vec<u8>, name: &str, value: usize) {
    key(out, 0x10, name);
    out.extend_from_slice(&int(value).to_le_bytes());
}

fn double(out: &mut Vec<u8>, name: &str, value: f64) {
    key(out, 0x01, name);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a string that consists of parts.
fn string(out: &mut Vec<u8>, name: &str, parts: &[&str]) {
    key(out, 0x02, name);
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&int(len + 1).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    out.push(0);
}

/// Appends the decimal digits of a number.
fn decimal(out: &mut Vec<u8>, number: usize) {
    let at = out.len();
    let mut rest = number;
    loop {
        out.push(b'0' + u8::try_from(rest % 10).unwrap_or_default());
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out[at..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    fn read(bytes: &[u8]) -> Document {
        Document::from_reader(bytes).unwrap()
    }

    #[test]
    fn counts_read_back() {
        let mut out = Vec::new();
        counted(&mut out, 1000);
        assert_eq!(read(&out), doc! {"n": 1000, "ok": 1.0});
        out.clear();
        modified(&mut out, 3);
        assert_eq!(read(&out), doc! {"n": 3, "nModified": 3, "ok": 1.0});
    }

    #[test]
    fn a_batch_reads_back_as_the_documents_in_it() {
        let mut out = Vec::new();
        let mut batch = Batch::begin(&mut out, "nextBatch");
        let documents: Vec<Document> = (0..120).map(|number| doc! {"x": number}).collect();
        documents.iter().for_each(|document| batch.push(&document.to_vec().unwrap()));
        assert_eq!(batch.count(), 120);
        batch.finish(7, Namespace { database: "a", collection: "b" });
        let expected = doc! {"cursor": {"nextBatch": documents, "id": 7_i64, "ns": "a.b"}, "ok": 1.0};
        assert_eq!(read(&out), expected);
        let keys = RawDocument::from_bytes(&out).unwrap().get_document("cursor").unwrap();
        let last = keys.get_array("nextBatch").unwrap().as_bytes();
        assert!(last.windows(4).any(|window| window == b"119\0"), "the last key is its index");
    }
}
