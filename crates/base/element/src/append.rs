//! Appends BSON elements to a byte buffer.
//!
//! Functions for the elements of every document are inlined, since their keys are constants at the call.

use crate::kind;

/// The first two bytes of a vector of 32-bit floats: its type, and the number of unused bits in its last
/// byte.
const FLOAT32: [u8; 2] = [0x27, 0];

/// Appends the type and the key of an element. The value must follow.
#[inline]
pub fn key(out: &mut Vec<u8>, kind: u8, key: &str) {
    out.push(kind);
    out.extend_from_slice(key.as_bytes());
    out.push(0);
}

/// Appends the type and the index of an array item. The value must follow. Vectors have hundreds of items, so the index is
/// written digit by digit instead of formatted.
pub fn item(out: &mut Vec<u8>, kind: u8, index: usize) {
    // The type, at most twenty digits, the end of the key.
    let mut bytes = [0; 22];
    let (mut at, mut left) = (bytes.len() - 1, index);
    loop {
        at -= 1;
        bytes[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    bytes[at - 1] = kind;
    out.extend_from_slice(&bytes[at - 1..]);
}

/// Appends one document whose elements `fill` writes.
#[inline]
pub fn document(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = open(out);
    fill(out);
    close(out, at);
}

/// Opens a document by reserving its length. Pass the result to [`close`].
#[inline]
pub fn open(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    at
}

/// Closes the document that was opened at `at`.
#[inline]
pub fn close(out: &mut Vec<u8>, at: usize) {
    out.push(0);
    patch_len(out, at);
}

/// Writes the number of bytes from `at` to the end of the buffer into the four bytes at `at`.
#[inline]
pub fn patch_len(out: &mut [u8], at: usize) {
    let length = length(out.len() - at);
    out[at..at + 4].copy_from_slice(&length);
}

/// Appends an element that is a document whose elements `fill` writes.
pub fn nested(out: &mut Vec<u8>, name: &str, fill: impl FnOnce(&mut Vec<u8>)) {
    embedded(out, name, |out| document(out, fill));
}

/// Appends an element that is a document; `value` appends exactly that document.
#[inline]
pub fn embedded(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    key(out, kind::DOCUMENT, name);
    value(out);
}

/// Appends the item `index` of an array, which is a document; `value` appends exactly that document.
#[inline]
pub fn embedded_item(out: &mut Vec<u8>, index: usize, value: impl FnOnce(&mut Vec<u8>)) {
    item(out, kind::DOCUMENT, index);
    value(out);
}

/// Appends an element that is an array; `fill` writes its items.
#[inline]
pub fn array(out: &mut Vec<u8>, name: &str, fill: impl FnOnce(&mut Vec<u8>)) {
    key(out, kind::ARRAY, name);
    document(out, fill);
}

/// Appends the elements of a document, given with its length and final NUL.
pub fn elements(out: &mut Vec<u8>, document: &[u8]) {
    out.extend_from_slice(document.get(4..document.len().saturating_sub(1)).unwrap_or_default());
}

/// Appends a string.
pub fn string(out: &mut Vec<u8>, name: &str, value: impl AsRef<[u8]>) {
    key(out, kind::STRING, name);
    text(out, value.as_ref());
}

/// Appends the value of a string.
pub fn text(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&length(value.len() + 1));
    out.extend_from_slice(value);
    out.push(0);
}

/// Appends a boolean.
pub fn boolean(out: &mut Vec<u8>, name: &str, value: bool) {
    key(out, kind::BOOLEAN, name);
    out.push(u8::from(value));
}

/// Appends a 32-bit integer.
pub fn int32(out: &mut Vec<u8>, name: &str, value: i32) {
    key(out, kind::INT32, name);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a 64-bit integer.
#[inline]
pub fn int64(out: &mut Vec<u8>, name: &str, value: i64) {
    key(out, kind::INT64, name);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a date, in milliseconds since 1970.
#[inline]
pub fn date(out: &mut Vec<u8>, name: &str, ms: u64) {
    key(out, kind::DATE, name);
    out.extend_from_slice(&i64::try_from(ms).unwrap_or(i64::MAX).to_le_bytes());
}

/// Appends null.
#[inline]
pub fn null(out: &mut Vec<u8>, name: &str) {
    key(out, kind::NULL, name);
}

/// Appends an ObjectId.
pub fn object_id(out: &mut Vec<u8>, name: &str, value: &[u8; 12]) {
    key(out, kind::OBJECT_ID, name);
    out.extend_from_slice(value);
}

/// Appends binary data, or null for `None`.
#[inline]
pub fn binary(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    match value {
        Some(value) => bytes(out, name, kind::GENERIC, &[], value),
        None => null(out, name),
    }
}

/// Appends a UUID.
pub fn uuid(out: &mut Vec<u8>, name: &str, value: &[u8; 16]) {
    bytes(out, name, kind::UUID, &[], value);
}

/// Appends a vector as a BSON float32 vector (binary subtype 9: a byte for the type, a byte of padding, little-endian floats).
pub fn vector(out: &mut Vec<u8>, name: &str, values: &[f32]) {
    bytes(out, name, kind::VECTOR, &FLOAT32, &[]);
    let at = out.len() - FLOAT32.len() - 1 - 4;
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    out[at..at + 4].copy_from_slice(&length(FLOAT32.len() + size_of_val(values)));
}

/// Appends a vector as an array of doubles.
pub fn doubles(out: &mut Vec<u8>, name: &str, values: &[f32]) {
    array(out, name, |out| {
        for (index, value) in values.iter().enumerate() {
            item(out, kind::DOUBLE, index);
            out.extend_from_slice(&f64::from(*value).to_le_bytes());
        }
    });
}

#[inline]
fn bytes(out: &mut Vec<u8>, name: &str, subtype: u8, head: &[u8], value: &[u8]) {
    key(out, kind::BINARY, name);
    out.extend_from_slice(&length(head.len() + value.len()));
    out.push(subtype);
    out.extend_from_slice(head);
    out.extend_from_slice(value);
}

/// A length in BSON. Commands have a much lower limit than 2 GiB; larger ones are refused before they are sent.
#[inline]
fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, Document, doc};

    #[test]
    fn appended_elements_read_back_as_bson() {
        let mut out = Vec::new();
        document(&mut out, |out| {
            string(out, "s", "text");
            boolean(out, "b", true);
            int32(out, "i", -5);
            int64(out, "l", 1 << 40);
            date(out, "d", 7);
            null(out, "n");
            object_id(out, "o", &[3; 12]);
            binary(out, "x", Some(&[1, 2]));
            binary(out, "v", None);
            uuid(out, "u", &[9; 16]);
            nested(out, "m", |out| int32(out, "k", 1));
            elements(out, &doc! {"y": "z"}.to_vec().unwrap());
            elements(out, &[]);
        });
        let binary = |subtype, bytes: Vec<u8>| Bson::Binary(Binary { subtype, bytes });
        let expected = doc! {
            "s": "text", "b": true, "i": -5, "l": 1_i64 << 40, "d": bson::DateTime::from_millis(7), "n": Bson::Null,
            "o": bson::oid::ObjectId::from_bytes([3; 12]), "x": binary(BinarySubtype::Generic, vec![1, 2]),
            "v": Bson::Null, "u": binary(BinarySubtype::Uuid, vec![9; 16]), "m": {"k": 1}, "y": "z",
        };
        assert_eq!(Document::from_reader(out.as_slice()).unwrap(), expected);
    }

    #[test]
    fn whole_documents_are_embedded_as_elements_and_items() {
        let mut out = Vec::new();
        document(&mut out, |out| {
            embedded(out, "q", |out| document(out, |_| ()));
            array(out, "a", |out| (0..11).for_each(|at| embedded_item(out, at, |out| document(out, |_| ()))));
            boolean(out, "multi", true);
            int32(out, "limit", 1);
        });
        let expected = doc! {"q": {}, "a": vec![doc! {}; 11], "multi": true, "limit": 1};
        assert_eq!(Document::from_reader(out.as_slice()).unwrap(), expected);
    }

    #[test]
    fn an_index_is_written_in_decimal() {
        for index in [0, 9, 10, 99, 100, 12_345, usize::MAX] {
            let mut out = Vec::new();
            item(&mut out, 0x10, index);
            assert_eq!(out, [&[0x10][..], index.to_string().as_bytes(), &[0]].concat());
        }
    }

    #[test]
    fn a_vector_has_two_forms() {
        let mut out = Vec::new();
        document(&mut out, |out| {
            doubles(out, "a", &[0.5, -2.0]);
            vector(out, "v", &[0.5, -2.0]);
        });
        let read = Document::from_reader(out.as_slice()).unwrap();
        assert_eq!(read.get_array("a").unwrap(), &vec![Bson::Double(0.5), Bson::Double(-2.0)]);
        let Some(Bson::Binary(binary)) = read.get("v") else { panic!("{read}") };
        assert_eq!(binary.subtype, BinarySubtype::Vector);
        let vector = bson::binary::Vector::try_from(binary).unwrap();
        assert_eq!(vector, bson::binary::Vector::Float32(vec![0.5, -2.0]));
    }
}
