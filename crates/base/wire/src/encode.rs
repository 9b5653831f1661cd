//! Appends BSON elements to a byte buffer.

use bson::Document;

/// Starts a document by reserving its length. Pass the returned start to [`end`].
pub(crate) fn start(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    at
}

/// Ends the document that [`start`] began.
pub(crate) fn end(out: &mut Vec<u8>, at: usize) {
    out.push(0);
    patch_len(out, at);
}

/// Writes the number of bytes from `at` to the end of the buffer into the four bytes at `at`.
///
/// # Panics
/// If that exceeds 2 GiB. Every caller has a much lower limit.
pub(crate) fn patch_len(out: &mut [u8], at: usize) {
    let len = i32::try_from(out.len() - at).expect("a frame is bounded to 48 MB");
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

/// Appends the type and the key of an element; the value must follow.
pub(crate) fn key(out: &mut Vec<u8>, kind: u8, key: &str) {
    out.push(kind);
    out.extend_from_slice(key.as_bytes());
    out.push(0);
}

/// Appends a string element.
pub(crate) fn string(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, 0x02, name);
    let len = i32::try_from(value.len() + 1).expect("names and texts of a command are bounded");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}

/// Appends a boolean element.
pub(crate) fn boolean(out: &mut Vec<u8>, name: &str, value: bool) {
    key(out, 0x08, name);
    out.push(u8::from(value));
}

/// Appends a 32-bit integer element.
pub(crate) fn int32(out: &mut Vec<u8>, name: &str, value: i32) {
    key(out, 0x10, name);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a 64-bit integer element.
pub(crate) fn int64(out: &mut Vec<u8>, name: &str, value: i64) {
    key(out, 0x12, name);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends every element of `value` to the open document.
///
/// # Errors
/// A key contains a NUL byte.
pub(crate) fn elements(out: &mut Vec<u8>, value: &Document) -> Result<(), bson::error::Error> {
    let bytes = value.to_vec()?;
    out.extend_from_slice(&bytes[4..bytes.len() - 1]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn appended_elements_read_back_as_bson() {
        let mut out = Vec::new();
        let at = start(&mut out);
        string(&mut out, "s", "text");
        boolean(&mut out, "b", true);
        int32(&mut out, "i", -5);
        int64(&mut out, "l", 1 << 40);
        elements(&mut out, &doc! {"y": "z"}).unwrap();
        end(&mut out, at);
        let read = Document::from_reader(out.as_slice()).unwrap();
        assert_eq!(read, doc! {"s": "text", "b": true, "i": -5, "l": 1_i64 << 40, "y": "z"});
    }
}
