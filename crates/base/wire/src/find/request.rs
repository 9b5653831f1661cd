//! Encodes a find once; only its filter changes.

use plimsoll_element as element;
use plimsoll_element::append;

use crate::error::{Error, TooLarge};
use crate::find::spec::FindSpec;
use crate::frame;
use crate::hello::Limits;

/// The position of the body's length: after header, flags and kind.
const BODY_AT: usize = frame::HEADER_LEN + 4 + 1;
/// The position of the cursor's id in a getMore: after the body's length, a type byte and the key `getMore`.
const CURSOR_AT: usize = BODY_AT + 4 + 1 + b"getMore\0".len();
/// The filter that matches everything.
const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];

/// A reusable find on one collection, with its getMore.
#[derive(Clone, Debug)]
pub struct FindRequest {
    find: Vec<u8>,
    get_more: Vec<u8>,
    filter_at: usize,
    filter_bytes_max: usize,
    db: String,
    collection: String,
}

impl FindRequest {
    /// A find that matches everything.
    ///
    /// # Errors
    /// [`Error::Encode`] if the spec has an invalid key; [`Error::TooLarge`] if the spec alone exceeds the server's limit.
    pub fn new(spec: &FindSpec, limits: &Limits) -> Result<Self, Error> {
        let mut find = open();
        spec.append_find(&mut find)?;
        append::key(&mut find, 0x03, "filter");
        let filter_at = find.len();
        let filter_bytes_max = limits.max_bson_object_bytes as usize;
        let get_more = get_more(spec);
        let (db, collection) = (spec.db.clone(), spec.collection.clone());
        let mut request = FindRequest { find, get_more, filter_at, filter_bytes_max, db, collection };
        TooLarge::check(filter_at, limits.max_message_bytes as usize)?;
        request.filter(|out| out.extend_from_slice(&EMPTY))?;
        Ok(request)
    }

    /// Replaces the filter: `write` appends exactly its BSON bytes.
    ///
    /// # Errors
    /// The filter exceeds the limit of a document; the request then matches everything.
    ///
    /// # Panics
    /// If `write` does not append exactly one BSON document.
    pub fn filter(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), TooLarge> {
        self.find.truncate(self.filter_at);
        write(&mut self.find);
        let bytes = self.find.len().saturating_sub(self.filter_at);
        let fits = TooLarge::check(bytes, self.filter_bytes_max);
        if fits.is_err() {
            self.find.truncate(self.filter_at);
            self.find.extend_from_slice(&EMPTY);
        } else {
            let declared = self.find.get(self.filter_at..).and_then(element::int32);
            let declared = declared.and_then(|len| usize::try_from(len).ok());
            assert_eq!(declared, Some(bytes), "a filter must be exactly one BSON document");
        }
        close(&mut self.find);
        fits
    }

    /// The database.
    pub fn db(&self) -> &str {
        &self.db
    }

    /// The collection.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// The find's message.
    pub(crate) fn find(&mut self, request_id: i32) -> &[u8] {
        frame::patch_request_id(&mut self.find, request_id);
        &self.find
    }

    /// The message for a cursor's next batch.
    pub(crate) fn get_more(&mut self, request_id: i32, cursor_id: i64) -> &[u8] {
        frame::patch_request_id(&mut self.get_more, request_id);
        self.get_more[CURSOR_AT..CURSOR_AT + 8].copy_from_slice(&cursor_id.to_le_bytes());
        &self.get_more
    }
}

fn get_more(spec: &FindSpec) -> Vec<u8> {
    let mut out = open();
    append::int64(&mut out, "getMore", 0);
    spec.append_get_more(&mut out);
    close(&mut out);
    out
}

/// Starts a message and its body.
fn open() -> Vec<u8> {
    let mut out = Vec::new();
    frame::start(&mut out, 0, 0, 0);
    append::open(&mut out);
    out
}

/// Ends the body and the message.
fn close(out: &mut Vec<u8>) {
    append::close(out, BODY_AT);
    frame::finish(out, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Message;
    use crate::read_preference::{ReadMode, ReadPreference};
    use bson::{Bson, Document, doc, rawdoc};

    fn body(bytes: &[u8]) -> Document {
        Document::try_from(Message::parse(bytes).unwrap().body).unwrap()
    }

    #[test]
    fn a_request_holds_its_spec_and_its_filter() {
        let mut spec = FindSpec::new("d", "c");
        spec.projection = Some(doc! {"_id": 1});
        spec.sort = Some(doc! {"a": -1});
        spec.hint = Some(Bson::String("a_1".into()));
        (spec.limit, spec.batch_size, spec.max_time_ms) = (Some(10), Some(2), Some(5));
        spec.read_concern = Some("majority".into());
        spec.read_preference = ReadPreference::of(ReadMode::Nearest);
        spec.extra = doc! {"comment": "x"};
        let mut request = FindRequest::new(&spec, &Limits::default()).unwrap();
        for filter in [rawdoc! {"a": 1}, rawdoc! {"longer": "than before"}, rawdoc! {}] {
            request.filter(|out| out.extend_from_slice(filter.as_bytes())).unwrap();
            let expected = doc! {
                "find": "c", "projection": {"_id": 1}, "sort": {"a": -1}, "hint": "a_1", "maxTimeMS": 5_i64,
                "limit": 10_i64, "readConcern": {"level": "majority"}, "comment": "x", "batchSize": 2_i64,
                "$readPreference": {"mode": "nearest"}, "$db": "d", "filter": Document::try_from(filter).unwrap(),
            };
            assert_eq!(body(request.find(3)), expected);
        }
        let expected = doc! {
            "getMore": -7_i64, "collection": "c", "batchSize": 2_i64, "$readPreference": {"mode": "nearest"}, "$db": "d",
        };
        assert_eq!(body(request.get_more(4, -7)), expected);
    }

    #[test]
    fn a_filter_above_the_limit_is_refused_and_replaced_by_the_empty_one() {
        let limits = Limits { max_bson_object_bytes: 1024, ..Limits::default() };
        let mut request = FindRequest::new(&FindSpec::new("d", "c"), &limits).unwrap();
        let large = rawdoc! {"x": "a".repeat(2000)};
        assert!(request.filter(|out| out.extend_from_slice(large.as_bytes())).is_err());
        assert_eq!(body(request.find(3)), doc! {"find": "c", "$db": "d", "filter": {}});
    }
}
