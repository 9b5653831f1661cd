//! Holds a parsed template: a tree of values with known sizes.

use std::rc::Rc;

use plimsoll_element::kind;

use crate::distribution::Whole;
use crate::fill::{Chooser, Fill};
use crate::random::Bernoulli;
use crate::size::{Lengths, Size};

/// A value of the template.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shape: Shape,
    /// The place of the value, computed from its path. The value's random words begin there.
    pub(crate) salt: u64,
    /// The number of generated arrays around the value in the template.
    pub(crate) depth: usize,
    /// The number of levels of documents and arrays inside the value.
    pub(crate) height: usize,
    /// The size of the value, in bytes.
    pub(crate) size: Size,
}

/// The content of a value.
#[derive(Debug)]
pub(crate) enum Shape {
    Constant { kind: u8, bytes: Vec<u8> },
    Hole(Hole),
    Text(Lengths),
    Bytes(Lengths),
    Family(Family),
    Pick { chooser: Chooser, choices: Vec<(u8, Vec<u8>)> },
    Document(Vec<(String, Rc<Node>)>),
    Array(Vec<Rc<Node>>),
    Repeat { of: Rc<Node>, length: Lengths },
    Optional { presence: Bernoulli, value: Rc<Node> },
    Pad { to: usize },
}

/// A value of fixed type and width: constant bytes around the bytes to fill.
#[derive(Debug)]
pub(crate) struct Hole {
    pub(crate) kind: u8,
    pub(crate) before: Vec<u8>,
    pub(crate) fill: Fill,
    pub(crate) width: usize,
    pub(crate) after: Vec<u8>,
}

impl Hole {
    /// A hole without constant bytes.
    pub(crate) fn bare(kind: u8, width: usize, fill: Fill) -> Self {
        Self { kind, before: Vec::new(), fill, width, after: Vec::new() }
    }

    /// A string of `prefix` and the bytes to fill.
    pub(crate) fn string(prefix: &str, width: usize, fill: Fill) -> Self {
        let before = [&string_length(prefix.len() + width), prefix.as_bytes()].concat();
        Self { kind: kind::STRING, before, fill, width, after: vec![0] }
    }

    fn len(&self) -> usize {
        self.before.len() + self.width + self.after.len()
    }
}

/// A string of a prefix and a number of at least `digits` digits, with leading zeros.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    pub(crate) prefix: String,
    pub(crate) digits: usize,
    pub(crate) numbers: Whole,
}

/// The bytes of a string in addition to its text: the length and the final zero.
pub(crate) const STRING_FRAME: usize = 5;

/// The four bytes in front of a string of `bytes` bytes.
#[inline]
pub(crate) fn string_length(bytes: usize) -> [u8; 4] {
    (bytes as u32 + 1).to_le_bytes()
}

impl Shape {
    fn height(&self) -> usize {
        match self {
            Self::Document(fields) => 1 + fields.iter().map(|(_, node)| node.height).max().unwrap_or(0),
            Self::Array(items) => 1 + items.iter().map(|node| node.height).max().unwrap_or(0),
            Self::Repeat { of, .. } => 1 + of.height,
            Self::Optional { value, .. } => value.height,
            _ => 0,
        }
    }

    /// The size of a value of this shape.
    pub(crate) fn size(&self) -> Size {
        match self {
            Self::Constant { bytes, .. } => Size::exact(bytes.len()),
            Self::Hole(hole) => Size::exact(hole.len()),
            Self::Text(lengths) | Self::Bytes(lengths) => lengths.size().plus(Size::exact(STRING_FRAME)),
            Self::Family(family) => family.size(),
            Self::Pick { choices, .. } => {
                let lengths = || choices.iter().map(|(_, bytes)| bytes.len());
                Size { min: lengths().min().unwrap_or(0), max: lengths().max().unwrap_or(0) }
            }
            Self::Document(fields) => framed(fields.iter().map(|(name, node)| node.element_size(name.len()))),
            Self::Array(items) => {
                framed(items.iter().enumerate().map(|(index, node)| node.element_size(digits(index as u64))))
            }
            Self::Repeat { of, length } => repeated(of.element_size(0), *length),
            Self::Optional { value, .. } => value.size,
            Self::Pad { .. } => Size::exact(STRING_FRAME),
        }
    }
}

impl Node {
    /// A value of this shape, whose random words begin at `salt`, inside `depth` generated arrays.
    pub(crate) fn new(shape: Shape, salt: u64, depth: usize) -> Rc<Self> {
        let (height, size) = (shape.height(), shape.size());
        Rc::new(Self { shape, salt, depth, height, size })
    }

    /// The size of the value with its type byte and its key.
    pub(crate) fn element_size(&self, key_bytes: usize) -> Size {
        let whole = self.size.plus(Size::exact(key_bytes + 2));
        match self.shape {
            Shape::Optional { .. } => Size { min: 0, max: whole.max },
            _ => whole,
        }
    }
}

impl Family {
    fn size(&self) -> Size {
        let most = digits(self.numbers.greatest() as u64).max(self.digits);
        Size {
            min: self.prefix.len() + self.digits + STRING_FRAME,
            max: self.prefix.len() + most + STRING_FRAME,
        }
    }
}

fn framed(elements: impl Iterator<Item = Size>) -> Size {
    elements.fold(Size::exact(5), Size::plus)
}

fn repeated(item: Size, length: Lengths) -> Size {
    let keys = Size { min: key_digits(length.min), max: key_digits(length.max) };
    item.times(length).plus(keys).plus(Size::exact(5))
}

/// The number of decimal digits.
pub(crate) fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// The total digits of the keys of an array with this number of items.
fn key_digits(items: usize) -> usize {
    let mut total: usize = 0;
    let mut power: usize = 1;
    while power < items {
        total = total.saturating_add(items - power);
        power = power.saturating_mul(10);
    }
    total.saturating_add(items.min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_digits_are_the_sum_of_the_keys() {
        for items in [0, 1, 2, 10, 11, 99, 100, 101, 12_345] {
            let sum: usize = (0..items).map(|index| index.to_string().len()).sum();
            assert_eq!(key_digits(items), sum, "{items}");
        }
    }
}
