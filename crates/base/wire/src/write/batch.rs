//! Encodes documents straight into the frames that are sent.
//!
//! The bytes before a frame's first document (header, body, start of the section) are the same for every frame of a spec.
//! They are encoded once as the skeleton and copied; only lengths and the request id are patched. A batch that exceeds a
//! frame continues in the next one, in the same buffer.

use plimsoll_element as element;
use plimsoll_element::append;

use crate::error::{Error, TooLarge};
use crate::frame;
use crate::hello::Limits;
use crate::write::spec::{WriteKind, WriteSpec};

/// The number of bytes by which an update or delete statement may exceed a document (MongoDB's `BSONObjMaxInternalSize`).
const STATEMENT_SLACK: usize = 16 * 1024;

/// A reusable batch of documents for one kind of write to one collection. Its buffer grows to the largest batch and stays
/// allocated.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    len: u32,
    template: Template,
    bounds: Bounds,
    /// The transaction number of the batch, if it has a session.
    number: i64,
}

/// One message of a batch.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Its start in the buffer.
    start: usize,
    /// The index of its first document in the batch.
    first: u32,
    count: u32,
}

/// The bytes before a frame's documents.
#[derive(Clone, Debug)]
struct Template {
    skeleton: Vec<u8>,
    /// The position of the section's size in the skeleton.
    size_at: usize,
    kind: WriteKind,
    ordered: bool,
    is_acknowledged: bool,
    session: Option<SessionFields>,
}

/// The session's fields in the skeleton.
#[derive(Clone, Copy, Debug)]
struct SessionFields {
    /// The position of the last two bytes of the session's identifier, and their value.
    tail_at: usize,
    tail: u16,
    /// The position of the transaction number.
    number_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    document_bytes: usize,
    message_bytes: usize,
    documents: u32,
}

/// A frame that is ready to send.
pub(crate) struct Sealed<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) request_id: i32,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl WriteBatch {
    /// An empty batch that respects the server's limits.
    ///
    /// # Errors
    /// [`Error::Encode`] if `spec.extra` has an invalid key.
    pub fn new(spec: &WriteSpec, limits: &Limits) -> Result<Self, Error> {
        let template = Template::new(spec)?;
        let bounds = Bounds::new(&template, limits);
        Ok(WriteBatch { bytes: Vec::new(), frames: Vec::new(), len: 0, template, bounds, number: 1 })
    }

    /// Removes the documents, but keeps the memory. The next documents are another write: in a session, they
    /// get the next transaction number. Until the next call, the batch is sent with the same number, however
    /// often.
    pub fn clear(&mut self) {
        self.number += 1;
        self.bytes.clear();
        self.frames.clear();
        self.len = 0;
    }

    /// Appends one document (insert) or statement (update, delete): `write` appends exactly its BSON bytes.
    ///
    /// # Errors
    /// The document exceeds the server's limit; the batch is unchanged.
    ///
    /// # Panics
    /// If `write` does not append exactly one BSON document, or the batch has 4 billion documents.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), TooLarge> {
        let frame = self.frame_with_room();
        let at = self.bytes.len();
        write(&mut self.bytes);
        let bytes = self.bytes.len().saturating_sub(at);
        if bytes > self.bounds.document_bytes {
            self.roll_back(at);
            return Err(TooLarge { bytes, max: self.bounds.document_bytes });
        }
        let declared =
            self.bytes.get(at..).and_then(element::int32).and_then(|len| usize::try_from(len).ok());
        assert_eq!(declared, Some(bytes), "a push must append exactly one BSON document");
        if self.bytes.len() - frame.start > self.bounds.message_bytes {
            self.move_to_new_frame(at);
        }
        self.count_one();
        Ok(())
    }

    /// The number of documents.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size on the wire in bytes without compression, TLS and TCP.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The number of messages of the batch.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// The command of the batch.
    pub fn kind(&self) -> WriteKind {
        self.template.kind
    }

    /// Whether the server stops at the first failure.
    pub fn is_ordered(&self) -> bool {
        self.template.ordered
    }

    /// Whether the server answers; false for `w: 0`.
    pub fn is_acknowledged(&self) -> bool {
        self.template.is_acknowledged
    }

    /// The documents of a frame: index of the first, and count.
    pub(crate) fn documents(&self, frame: usize) -> (u32, u32) {
        (self.frames[frame].first, self.frames[frame].count)
    }

    /// Patches a frame's lengths and request id.
    pub(crate) fn seal(&mut self, frame: usize, request_id: i32) -> Sealed<'_> {
        let Frame { start, first, count } = self.frames[frame];
        let end = self.frames.get(frame + 1).map_or(self.bytes.len(), |next| next.start);
        let bytes = &mut self.bytes[start..end];
        frame::finish(bytes, 0);
        frame::patch_request_id(bytes, request_id);
        append::patch_len(bytes, self.template.size_at);
        if let Some(fields) = self.template.session {
            fields.patch(bytes, frame, self.number);
        }
        Sealed { bytes, request_id, first, count }
    }

    /// Removes the document that starts at `at`, and its frame if it was the frame's first.
    fn roll_back(&mut self, at: usize) {
        self.bytes.truncate(at);
        if let Some(empty) = self.frames.pop_if(|frame| frame.count == 0) {
            self.bytes.truncate(empty.start);
        }
    }

    /// The last frame, or a new one if it is full.
    fn frame_with_room(&mut self) -> Frame {
        match self.frames.last() {
            Some(&frame) if frame.count < self.bounds.documents => frame,
            _ => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&self.template.skeleton);
                self.open_frame(start)
            }
        }
    }

    fn open_frame(&mut self, start: usize) -> Frame {
        let frame = Frame { start, first: self.len, count: 0 };
        self.frames.push(frame);
        frame
    }

    /// Inserts a skeleton before the document that starts at `at`.
    fn move_to_new_frame(&mut self, at: usize) {
        self.bytes.extend_from_slice(&self.template.skeleton);
        self.bytes[at..].rotate_right(self.template.skeleton.len());
        self.open_frame(at);
    }

    fn count_one(&mut self) {
        self.len = self.len.checked_add(1).expect("a batch holds fewer than 4 billion documents");
        if let Some(frame) = self.frames.last_mut() {
            frame.count += 1;
        }
    }
}

impl Template {
    fn new(spec: &WriteSpec) -> Result<Self, Error> {
        let is_acknowledged = spec.is_acknowledged();
        let flags = if is_acknowledged { 0 } else { frame::MORE_TO_COME };
        let mut skeleton = Vec::new();
        frame::start(&mut skeleton, 0, 0, flags);
        let body_at = skeleton.len();
        spec.append_body(&mut skeleton)?;
        let session = SessionFields::find(spec, &skeleton[body_at..], body_at);
        skeleton.push(1);
        let size_at = append::open(&mut skeleton);
        skeleton.extend_from_slice(spec.kind.sequence());
        Ok(Template { skeleton, size_at, kind: spec.kind, ordered: spec.ordered, is_acknowledged, session })
    }
}

impl SessionFields {
    /// The fields in a body that starts at `body_at` of the skeleton.
    fn find(spec: &WriteSpec, body: &[u8], body_at: usize) -> Option<Self> {
        let id = spec.session?;
        let lsid = element::find(body, b"lsid")?.range_in(body);
        let number = element::find(body, b"txnNumber")?.range_in(body);
        // The identifier's last byte is followed by the end of the document `lsid`.
        let tail_at = body_at + lsid.end - 1 - 2;
        Some(Self {
            tail_at,
            tail: u16::from_be_bytes([id[14], id[15]]),
            number_at: body_at + number.end - 8,
        })
    }

    /// Gives a frame a separate session, because a server remembers only the last number of each session.
    /// Otherwise the server would refuse a frame that is sent again after its successor.
    fn patch(self, bytes: &mut [u8], frame: usize, number: i64) {
        let tail = self.tail ^ (frame & usize::from(u16::MAX)) as u16;
        bytes[self.tail_at..self.tail_at + 2].copy_from_slice(&tail.to_be_bytes());
        bytes[self.number_at..self.number_at + 8].copy_from_slice(&number.to_le_bytes());
    }
}

impl Bounds {
    fn new(template: &Template, limits: &Limits) -> Self {
        let message_bytes = (limits.max_message_bytes as usize).min(frame::LEN_MAX);
        let slack = if template.kind == WriteKind::Insert { 0 } else { STATEMENT_SLACK };
        let document_bytes = (limits.max_bson_object_bytes as usize + slack)
            .min(message_bytes.saturating_sub(template.skeleton.len()));
        Bounds { document_bytes, message_bytes, documents: limits.max_write_batch.max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Message;
    use bson::{RawDocumentBuf, rawdoc};

    fn document(bytes: usize) -> RawDocumentBuf {
        let empty = rawdoc! {"x": ""}.as_bytes().len();
        rawdoc! {"x": "a".repeat(bytes - empty)}
    }

    fn batch(limits: Limits) -> WriteBatch {
        WriteBatch::new(&WriteSpec::new(WriteKind::Insert, "d", "c"), &limits).unwrap()
    }

    fn fill(batch: &mut WriteBatch, sizes: &[usize]) {
        for &size in sizes {
            batch.push(|out| out.extend_from_slice(document(size).as_bytes())).unwrap();
        }
    }

    /// Every frame is a message within the limits, and together they hold the documents in order.
    fn check(batch: &mut WriteBatch, limits: Limits, sizes: &[usize]) {
        let mut sizes_found = Vec::new();
        let mut first_expected = 0;
        for place in 0..batch.frames() {
            let sealed = batch.seal(place, 77);
            assert!(sealed.bytes.len() <= limits.max_message_bytes as usize);
            assert!(sealed.count <= limits.max_write_batch && sealed.count > 0);
            assert_eq!(sealed.first, first_expected);
            first_expected += sealed.count;
            let message = Message::parse(sealed.bytes).unwrap();
            assert_eq!((message.request_id, message.body.get_str("insert").unwrap()), (77, "c"));
            let sequence = message.sequences().next().unwrap();
            sizes_found.extend(sequence.iter().map(|document| document.as_bytes().len()));
        }
        assert_eq!(sizes_found, sizes);
        assert_eq!(batch.len() as usize, sizes.len());
    }

    #[test]
    fn a_batch_splits_at_the_number_of_documents_and_at_the_bytes_of_a_message() {
        let limits = Limits { max_bson_object_bytes: 600, max_message_bytes: 1024, max_write_batch: 3 };
        for sizes in [vec![20; 10], vec![500; 5], vec![20, 600, 20, 600, 20, 20, 20, 20], vec![]] {
            let mut batch = batch(limits);
            fill(&mut batch, &sizes);
            check(&mut batch, limits, &sizes);
            batch.clear();
            fill(&mut batch, &sizes);
            check(&mut batch, limits, &sizes);
        }
    }

    #[test]
    fn a_batch_above_48_mb_takes_two_messages() {
        let limits = Limits::default();
        let sizes = [16 * 1024 * 1024; 4];
        let mut batch = batch(limits);
        fill(&mut batch, &sizes);
        assert_eq!(batch.frames(), 2);
        check(&mut batch, limits, &sizes);
    }

    #[test]
    fn a_document_above_the_limit_is_refused_and_the_batch_is_unchanged() {
        let limits = Limits { max_bson_object_bytes: 100, ..Limits::default() };
        let mut batch = batch(limits);
        for sizes in [vec![], vec![20, 30]] {
            batch.clear();
            fill(&mut batch, &sizes);
            let refused = batch.push(|out| out.extend_from_slice(document(101).as_bytes()));
            assert_eq!(refused, Err(TooLarge { bytes: 101, max: 100 }));
            assert_eq!(batch.len() as usize, sizes.len());
            fill(&mut batch, &[25]);
            let sizes = [sizes.as_slice(), &[25]].concat();
            check(&mut batch, limits, &sizes);
        }
    }

    #[test]
    #[should_panic(expected = "exactly one BSON document")]
    fn a_push_of_two_documents_panics() {
        let twice = |out: &mut Vec<u8>| out.extend_from_slice(&[5, 0, 0, 0, 0, 5, 0, 0, 0, 0]);
        let _ = batch(Limits::default()).push(twice);
    }

    #[test]
    fn each_frame_has_its_session_and_each_batch_its_number_however_often_it_is_sent() {
        let session = Some([9; 16]);
        let spec = WriteSpec { session, ..WriteSpec::new(WriteKind::Insert, "d", "c") };
        let mut batch = WriteBatch::new(&spec, &Limits { max_write_batch: 1, ..Limits::default() }).unwrap();
        let marks = |batch: &mut WriteBatch| {
            let mut mark = |frame| {
                let message = Message::parse(batch.seal(frame, 1).bytes).unwrap();
                let id = message.body.get_document("lsid").unwrap().get_binary("id").unwrap().bytes.to_vec();
                (id, message.body.get_i64("txnNumber").unwrap())
            };
            [0, 1].map(&mut mark)
        };
        batch.clear();
        fill(&mut batch, &[40, 40]);
        let [first, second] = marks(&mut batch);
        assert_eq!(first.0, [9; 16]);
        assert!(second.0[..15] == [9; 15] && second.0[15] == 8, "{second:?}");
        assert_eq!((first.1, second.1), (2, 2));
        assert_eq!(marks(&mut batch), [first, second], "a retry repeats the numbers");
        batch.clear();
        fill(&mut batch, &[40, 40]);
        assert_eq!(marks(&mut batch)[0], (vec![9; 16], 3));
    }
}
