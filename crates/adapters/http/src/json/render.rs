//! Renders BSON as JSON, or as text for a URL or a header, into the caller's buffer. Allocates nothing else.
//!
//! Whole numbers and finite doubles are numbers, dates are RFC 3339 text, ObjectIds are hex, UUIDs and decimals are text,
//! other binary data is base64.

use base64::engine::Engine as _;
use base64::engine::general_purpose::STANDARD;

use plimsoll_element::{Element, kind, valid};

use super::stamp::{Stamp, StampForm, Stamps};
use super::{decimal, moment};

const HEX: &[u8; 16] = b"0123456789abcdef";
const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";
/// The bytes per step of base64 encoding: a multiple of three.
const BASE64_PART: usize = 48;

/// Appends a document as a JSON object.
pub(crate) fn document(bytes: &[u8], out: &mut Vec<u8>, stamps: &mut Stamps) {
    out.push(b'{');
    for (index, element) in valid(bytes).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        quoted(element.key, out);
        out.push(b':');
        value(&element, out, stamps);
    }
    out.push(b'}');
}

/// Appends a value as JSON.
fn value(element: &Element<'_>, out: &mut Vec<u8>, stamps: &mut Stamps) {
    match element.kind {
        kind::DOCUMENT => document(element.value, out, stamps),
        kind::ARRAY => array(element.value, out, stamps),
        kind::STRING => quoted(element.as_text().unwrap_or_default(), out),
        _ if is_bare(element) => plain(element, out, stamps),
        _ => {
            out.push(b'"');
            plain(element, out, stamps);
            out.push(b'"');
        }
    }
}

/// Whether JSON writes the value without quotation marks.
fn is_bare(element: &Element<'_>) -> bool {
    match element.kind {
        kind::DATE | kind::OBJECT_ID | kind::DECIMAL => false,
        kind::BINARY => matches!(Stamp::of(0, element), Some(Stamp { form: StampForm::Millis, .. })),
        _ => true,
    }
}

fn array(bytes: &[u8], out: &mut Vec<u8>, stamps: &mut Stamps) {
    out.push(b'[');
    for (index, element) in valid(bytes).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        value(&element, out, stamps);
    }
    out.push(b']');
}

/// Appends a value as bare text: a text as it is, a document or an array as JSON.
pub(crate) fn plain(element: &Element<'_>, out: &mut Vec<u8>, stamps: &mut Stamps) {
    let value = element.value;
    match element.kind {
        kind::STRING => out.extend_from_slice(element.as_text().unwrap_or_default()),
        kind::INT32 | kind::INT64 => whole(element.as_i64().unwrap_or(0), out),
        kind::DOUBLE => double(f64::from_bits(long(value).cast_unsigned()), out),
        kind::BOOLEAN => out.extend_from_slice(if value.first() == Some(&1) { b"true" } else { b"false" }),
        kind::DATE => date(long(value), out),
        kind::OBJECT_ID => value.iter().for_each(|byte| hex(*byte, out)),
        kind::DECIMAL => decimal::append(value, out),
        kind::BINARY => data(element, out, stamps),
        kind::DOCUMENT => document(value, out, stamps),
        kind::ARRAY => array(value, out, stamps),
        _ => out.extend_from_slice(b"null"),
    }
}

/// Appends a value as percent-encoded text for a path or a query; null becomes empty. A colon stays
/// unencoded, which paths and queries allow (RFC 3986, 3.3), so that a timestamp keeps its width.
pub(crate) fn percent(element: &Element<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>, stamps: &mut Stamps) {
    if element.kind == kind::NULL {
        return;
    }
    if let Some(stamp) = Stamp::of(out.len(), element) {
        out.resize(out.len() + stamp.width(), b'0');
        return stamps.push(stamp);
    }
    scratch.clear();
    // A time inside a document is rendered as text and is not overwritten later.
    let mut lost = Vec::new();
    plain(element, scratch, &mut lost);
    for &byte in &*scratch {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => out.push(byte),
            _ => {
                out.push(b'%');
                out.push(HEX_UPPER[usize::from(byte >> 4)]);
                out.push(HEX_UPPER[usize::from(byte & 15)]);
            }
        }
    }
}

fn long(value: &[u8]) -> i64 {
    value.first_chunk().copied().map_or(0, i64::from_le_bytes)
}

fn whole(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a double. Compiling a template refuses infinite numbers, and generators make only finite numbers
/// from finite numbers.
fn double(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
    } else {
        out.extend_from_slice(b"null");
    }
}

fn date(ms: i64, out: &mut Vec<u8>) {
    let mut characters = [0; moment::TEXT_LEN];
    moment::write_text(ms, &mut characters);
    out.extend_from_slice(&characters);
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

fn data(element: &Element<'_>, out: &mut Vec<u8>, stamps: &mut Stamps) {
    if let Some(stamp) = Stamp::of(out.len(), element) {
        out.resize(out.len() + stamp.width(), b'0');
        return stamps.push(stamp);
    }
    match element.as_binary().unwrap_or_default() {
        (kind::UUID, bytes) if bytes.len() == 16 => uuid(bytes, out),
        (_, bytes) => bytes.chunks(BASE64_PART).for_each(|part| {
            let mut characters = [0; BASE64_PART / 3 * 4];
            let length = STANDARD.encode_slice(part, &mut characters).unwrap_or_default();
            out.extend_from_slice(&characters[..length]);
        }),
    }
}

fn uuid(bytes: &[u8], out: &mut Vec<u8>) {
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        hex(*byte, out);
    }
}

/// Appends a text in quotation marks. Copies runs without escapes at once.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        escaped(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escaped(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            hex(byte, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::oid::ObjectId;
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, DateTime, RawDocumentBuf, doc};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn rendered(document: &bson::Document) -> (String, Stamps) {
        let raw = RawDocumentBuf::try_from(document).unwrap();
        let (mut out, mut stamps) = (Vec::new(), Vec::new());
        super::document(raw.as_bytes(), &mut out, &mut stamps);
        (String::from_utf8(out).unwrap(), stamps)
    }

    #[test]
    fn every_type_has_its_form_in_json() {
        let document = doc! {
            "i": 5, "l": i64::MIN, "d": 0.1, "w": 3.0, "t": "a\"b\\c\n\u{1}é", "b": true, "n": Bson::Null,
            "at": DateTime::from_millis(1_774_197_419_960), "id": ObjectId::from_bytes([0xab; 12]),
            "m": Bson::Decimal128("9.90".parse().unwrap()),
            "bin": Binary { subtype: BinarySubtype::Generic, bytes: vec![1; 100] },
            "u": Binary { subtype: BinarySubtype::Uuid, bytes: vec![0x12; 16] },
            "o": {"a": [1, {}, []]},
        };
        let value: Value = serde_json::from_str(&rendered(&document).0).unwrap();
        assert_eq!(
            value,
            json!({
                "i": 5, "l": i64::MIN, "d": 0.1, "w": 3.0, "t": "a\"b\\c\n\u{1}é", "b": true, "n": null,
                "at": "2026-03-22T16:36:59.960Z", "id": "abababababababababababab", "m": "9.90",
                "bin": STANDARD.encode([1; 100]), "u": "12121212-1212-1212-1212-121212121212",
                "o": {"a": [1, {}, []]},
            })
        );
    }

    #[test]
    fn a_time_overwrites_its_placeholder_when_it_is_known() {
        let stamp = |form| Binary {
            subtype: BinarySubtype::UserDefined(0x80),
            bytes: Stamp::encode(form, -1000).to_vec(),
        };
        let (text, stamps) = rendered(&doc! {"t": stamp(StampForm::Text), "m": stamp(StampForm::Millis)});
        let mut bytes = text.into_bytes();
        stamps.iter().for_each(|stamp| stamp.write(1_774_197_419_960, &mut bytes));
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value, json!({"t": "2026-03-22T16:36:58.960Z", "m": 1_774_197_418_960_i64}));
    }

    #[test]
    fn characters_with_a_meaning_in_a_url_are_percent_encoded() {
        let raw = bson::rawdoc! {"a": "x y/ü?&=#%+:", "b": 5, "c": null, "d": [1]};
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        for element in valid(raw.as_bytes()) {
            percent(&element, &mut scratch, &mut out, &mut Vec::new());
            out.push(b'|');
        }
        assert_eq!(String::from_utf8(out).unwrap(), "x%20y%2F%C3%BC%3F%26%3D%23%25%2B:|5||%5B1%5D|");
    }

    proptest! {
        #[test]
        fn rendered_texts_and_numbers_parse_to_the_same_values(text in ".*", number: i64, double in proptest::num::f64::NORMAL) {
            let document = doc! {"t": &text, format!("k{}", text.replace('\0', "")): number, "d": double};
            let value: Value = serde_json::from_str(&rendered(&document).0).unwrap();
            prop_assert_eq!(&value["t"], &json!(document.get_str("t").unwrap_or_default().to_owned()));
            // serde_json may miss the last bit of a double; the standard library does not.
            let written = rendered(&doc! {"d": double}).0;
            prop_assert_eq!(written[5..written.len() - 1].parse::<f64>(), Ok(double));
        }
    }
}
