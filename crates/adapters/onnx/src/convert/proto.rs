//! Encodes the subset of Protocol Buffers that an ONNX file needs.
//!
//! A message is a sequence of fields, each a key (field number × 8 + wire type) and a value: a varint, or a
//! length and that many bytes. See <https://protobuf.dev/programming-guides/encoding/>.

/// A message under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

impl Message {
    /// Adds an integer field; a negative number takes ten bytes.
    pub(crate) fn number(mut self, field: u32, value: i64) -> Self {
        self.key(field, VARINT);
        self.varint(value.cast_unsigned());
        self
    }

    /// Adds a float field.
    pub(crate) fn float(mut self, field: u32, value: f32) -> Self {
        self.key(field, FIXED32);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a text field.
    pub(crate) fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    /// Adds a bytes field.
    pub(crate) fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.key(field, LENGTH);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Adds a message field.
    pub(crate) fn message(self, field: u32, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    /// Adds a repeated message field, once for each value.
    pub(crate) fn messages<'a>(self, field: u32, values: impl IntoIterator<Item = &'a Message>) -> Self {
        values.into_iter().fold(self, |message, value| message.message(field, value))
    }

    /// The encoded bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: Message, expected: &[u8]) {
        assert_eq!(message.into_bytes(), expected);
    }

    #[test]
    fn the_examples_of_the_specification_are_encoded() {
        check(Message::default().number(1, 150), &[0x08, 0x96, 0x01]);
        check(Message::default().text(2, "testing"), b"\x12\x07testing");
        let inner = Message::default().number(1, 150);
        check(Message::default().message(3, &inner), &[0x1a, 0x03, 0x08, 0x96, 0x01]);
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        check(Message::default().number(1, -1), &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }

    #[test]
    fn a_float_is_four_bytes_little_endian() {
        check(Message::default().float(1, 1.0), &[0x0d, 0, 0, 0x80, 0x3f]);
    }

    #[test]
    fn a_field_number_above_15_takes_two_bytes() {
        check(Message::default().number(16, 1), &[0x80, 0x01, 0x01]);
    }
}
