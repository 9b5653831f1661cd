//! Finds the large constants of an ONNX file without copying it.
//!
//! It reads only the few fields of `onnx.proto` that name the constants,
//! <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>. Unexpected fields are skipped.

use std::collections::BTreeSet;

/// The smallest constant worth sharing, in bytes.
const BYTES_MIN: usize = 64 << 10;

const MODEL_GRAPH: u64 = 7;
const GRAPH_INITIALIZER: u64 = 5;
const TENSOR_DIMS: u64 = 1;
const TENSOR_KIND: u64 = 2;
const TENSOR_NAME: u64 = 8;
const TENSOR_RAW: u64 = 9;

/// The type of a constant's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    F32,
    U8,
    I8,
}

/// A constant: its numbers in row order, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Constant<'a> {
    pub(super) name: &'a str,
    pub(super) numbers: Numbers,
    pub(super) shape: Vec<i64>,
    pub(super) raw: &'a [u8],
}

/// The value of a message's field.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes; no needed field has this type.
    Fixed,
}

/// The fields of a message; they end where the bytes are invalid.
struct Fields<'a>(&'a [u8]);

/// The large constants of an ONNX file, each name once.
pub(super) fn large(file: &[u8]) -> Vec<Constant<'_>> {
    let mut names = BTreeSet::new();
    let graphs = messages(file, MODEL_GRAPH);
    let tensors = graphs.flat_map(|graph| messages(graph, GRAPH_INITIALIZER));
    tensors.filter_map(constant).filter(|constant| names.insert(constant.name)).collect()
}

/// The messages in a field.
fn messages(message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    Fields(message).filter_map(move |(field, value)| match value {
        Value::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    })
}

fn constant(tensor: &[u8]) -> Option<Constant<'_>> {
    let (mut name, mut kind, mut shape, mut raw) = (None, None, Vec::new(), None);
    for (field, value) in Fields(tensor) {
        match (field, value) {
            (TENSOR_DIMS, Value::Number(axis)) => shape.push(i64::try_from(axis).ok()?),
            (TENSOR_DIMS, Value::Bytes(packed)) => axes(packed, &mut shape)?,
            (TENSOR_KIND, Value::Number(number)) => kind = Some(number),
            (TENSOR_NAME, Value::Bytes(bytes)) => name = std::str::from_utf8(bytes).ok(),
            (TENSOR_RAW, Value::Bytes(bytes)) => raw = Some(bytes),
            _ => {}
        }
    }
    // The numbers of the kinds are those of `TensorProto.DataType`.
    let (numbers, size) = match kind? {
        1 => (Numbers::F32, 4),
        2 => (Numbers::U8, 1),
        3 => (Numbers::I8, 1),
        _ => return None,
    };
    let (name, raw) = (name?, raw?);
    let bytes =
        shape.iter().try_fold(size, |bytes: usize, axis| bytes.checked_mul(usize::try_from(*axis).ok()?));
    (bytes == Some(raw.len()) && raw.len() >= BYTES_MIN).then_some(Constant { name, numbers, shape, raw })
}

/// Reads axes from one packed field.
fn axes(mut packed: &[u8], shape: &mut Vec<i64>) -> Option<()> {
    while !packed.is_empty() {
        shape.push(i64::try_from(varint(&mut packed)?).ok()?);
    }
    Some(())
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => self.skip(8)?,
            2 => {
                let len = usize::try_from(varint(&mut self.0)?).ok()?;
                Value::Bytes(self.0.split_off(..len)?)
            }
            5 => self.skip(4)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl Fields<'_> {
    fn skip(&mut self, bytes: usize) -> Option<Value<'static>> {
        self.0.split_off(..bytes).map(|_| Value::Fixed)
    }
}

/// Reads a varint of up to ten bytes.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::testing::file_with;

    #[test]
    fn the_large_constants_of_a_file_are_found_and_none_of_a_truncated_file() {
        let numbers: Vec<f32> = (0..20_000_u16).map(f32::from).collect();
        let file = file_with(&[("small", &[1, 4], &numbers[..4]), ("large", &[100, 200], &numbers)]);
        let found = large(&file);
        assert_eq!(found.iter().map(|found| found.name).collect::<Vec<_>>(), ["large"]);
        assert_eq!((found[0].shape.as_slice(), found[0].numbers), (&[100, 200][..], Numbers::F32));
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(found[0].raw, raw);
        for cut in (0..raw.len()).step_by(997) {
            assert_eq!(large(&file[..cut]), [], "cut at {cut}");
        }
    }

    #[test]
    fn random_bytes_contain_no_constants() {
        let mut state = 7_u64;
        for length in 0..2000 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                })
                .collect();
            assert_eq!(large(&bytes), []);
        }
        assert_eq!(large(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), []);
    }
}
