//! Compiles a tree of values to a program. Joins constants and holes of fixed width to runs of bytes, which
//! the program copies at once and then patches.

use std::rc::Rc;

use plimsoll_element::kind;

use crate::fill::{Chooser, Fill};
use crate::node::{Family, Hole, Node, Shape};
use crate::parse::FieldNodes;
use crate::random::{Bernoulli, stride};
use crate::size::Lengths;

/// The largest generated array, in bytes, that is written out item by item as one run.
const UNROLLED_BYTES_MAX: usize = 65_536;

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// Bytes with holes.
    Run(Run),
    /// A string of random length.
    Text { salt: u64, lengths: Lengths },
    /// Binary data of random length.
    Bytes { salt: u64, lengths: Lengths },
    /// A numbered string whose number of digits varies.
    Family { salt: u64, family: Family },
    /// One of several constants that differ in type or width. The step also sets the type byte before the
    /// key.
    Pick { salt: u64, chooser: Chooser, choices: Vec<(u8, Vec<u8>)>, key: Key },
    /// A document or an array of variable length; the last step writes its final zero.
    Framed(Vec<Op>),
    /// A generated array.
    Repeat(Repeat),
    /// A whole field that may be absent.
    Optional { salt: u64, presence: Bernoulli, field: Vec<Op> },
    /// A value of an outer scope: `levels` generated arrays lie in between.
    Outer { levels: usize, value: Vec<Op> },
}

/// Bytes to copy and holes to fill in the copy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) bytes: Vec<u8>,
    pub(crate) patches: Vec<Patch>,
}

/// A hole in a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patch {
    pub(crate) offset: usize,
    pub(crate) width: usize,
    pub(crate) salt: u64,
    pub(crate) fill: Fill,
}

/// A generated array: the type, number and steps of its items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Repeat {
    pub(crate) salt: u64,
    pub(crate) stride: u64,
    pub(crate) length: Lengths,
    pub(crate) kind: u8,
    pub(crate) item: Vec<Op>,
}

/// The distance from the type byte to the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Key {
    /// This number of bytes.
    Field(usize),
    /// The size of the key of the current item of a generated array.
    Item,
}

/// A generated array around the current value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    /// Unrolled: the item's place is known.
    Unrolled(u64),
    /// A loop at run time.
    Loop,
}

/// The type byte and the bytes of a value that never varies; `None` for any other value.
pub(crate) fn constant(node: &Node) -> Option<(u8, Vec<u8>)> {
    let mut builder = Builder::default();
    builder.value(node, &[], Key::Field(0));
    let kind = kind(&node.shape)?;
    match builder.finish().as_slice() {
        [] => Some((kind, Vec::new())),
        [Op::Run(run)] if run.patches.is_empty() => Some((kind, run.bytes.clone())),
        _ => None,
    }
}

/// The steps of a complete document, with its length and its final zero.
pub(crate) fn document(fields: &FieldNodes) -> Vec<Op> {
    let mut inner = Builder::default();
    inner.fields(fields, &[]);
    let mut builder = Builder::default();
    builder.framed(inner);
    builder.finish()
}

/// The steps before a padding string: room for the length, the fields, the string's type and key.
pub(crate) fn head(fields: &[(String, Rc<Node>)], pad: &str) -> Vec<Op> {
    let mut builder = Builder::default();
    builder.raw(&[0; 4]);
    builder.fields(fields, &[]);
    builder.raw(&[kind::STRING]);
    builder.raw(pad.as_bytes());
    builder.raw(&[0]);
    builder.finish()
}

/// The steps after a padding string: the other fields and the document's final zero.
pub(crate) fn tail(fields: &[(String, Rc<Node>)]) -> Vec<Op> {
    let mut builder = Builder::default();
    builder.fields(fields, &[]);
    builder.raw(&[0]);
    builder.finish()
}

/// The type byte; `None` when it varies.
fn kind(shape: &Shape) -> Option<u8> {
    match shape {
        Shape::Constant { kind, .. } => Some(*kind),
        Shape::Hole(hole) => Some(hole.kind),
        Shape::Text(_) | Shape::Family(_) | Shape::Pad { .. } => Some(kind::STRING),
        Shape::Bytes(_) => Some(kind::BINARY),
        Shape::Document(_) => Some(kind::DOCUMENT),
        Shape::Array(_) | Shape::Repeat { .. } => Some(kind::ARRAY),
        Shape::Pick { .. } => None,
        Shape::Optional { value, .. } => kind(&value.shape),
    }
}

/// The finished steps and the run that still grows.
#[derive(Default)]
struct Builder {
    ops: Vec<Op>,
    run: Run,
}

impl Builder {
    fn finish(mut self) -> Vec<Op> {
        self.flush();
        self.ops
    }

    fn flush(&mut self) {
        if !self.run.bytes.is_empty() {
            self.ops.push(Op::Run(std::mem::take(&mut self.run)));
        }
    }

    fn push(&mut self, op: Op) {
        self.flush();
        self.ops.push(op);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.run.bytes.extend_from_slice(bytes);
    }

    fn fields(&mut self, fields: &[(String, Rc<Node>)], scopes: &[Scope]) {
        for (name, node) in fields {
            self.field(name, node, scopes);
        }
    }

    fn field(&mut self, name: &str, node: &Node, scopes: &[Scope]) {
        if let Shape::Optional { presence, value } = &node.shape {
            let (salt, climb) = place(node, scopes);
            let mut field = Self::default();
            field.field(name, value, &scopes[..node.depth.min(scopes.len())]);
            let op = Op::Optional { salt, presence: *presence, field: field.finish() };
            return self.push(outer(climb, op));
        }
        self.raw(&[kind(&node.shape).unwrap_or(0)]);
        self.raw(name.as_bytes());
        self.raw(&[0]);
        self.value(node, scopes, Key::Field(name.len() + 2));
    }

    /// The value without its key. A value of an outer scope keeps the place of its random words, so it has the same content here.
    fn value(&mut self, node: &Node, scopes: &[Scope], key: Key) {
        let (salt, climb) = place(node, scopes);
        let scopes = &scopes[..node.depth.min(scopes.len())];
        if climb == 0 {
            return self.in_scope(node, salt, scopes, key);
        }
        let mut builder = Self::default();
        builder.in_scope(node, salt, scopes, key);
        self.push(Op::Outer { levels: climb, value: builder.finish() });
    }

    fn in_scope(&mut self, node: &Node, salt: u64, scopes: &[Scope], key: Key) {
        match &node.shape {
            Shape::Constant { bytes, .. } => self.raw(bytes),
            Shape::Hole(hole) => self.hole(hole, salt),
            Shape::Text(lengths) => self.push(Op::Text { salt, lengths: *lengths }),
            Shape::Bytes(lengths) => self.push(Op::Bytes { salt, lengths: *lengths }),
            Shape::Family(family) => self.push(Op::Family { salt, family: family.clone() }),
            Shape::Pick { chooser, choices } => {
                self.push(Op::Pick { salt, chooser: chooser.clone(), choices: choices.clone(), key });
            }
            Shape::Document(fields) => {
                let mut inner = Self::default();
                inner.fields(fields, scopes);
                self.framed(inner);
            }
            Shape::Array(items) => {
                let mut inner = Self::default();
                for (index, item) in items.iter().enumerate() {
                    inner.field(&index.to_string(), item, scopes);
                }
                self.framed(inner);
            }
            Shape::Repeat { of, length } => self.repeat(of, *length, (salt, stride(node.salt)), scopes),
            Shape::Optional { value, .. } => self.value(value, scopes, key),
            // The program writes the padding itself, once it knows the size of the other fields.
            Shape::Pad { .. } => self.raw(&[1, 0, 0, 0, 0]),
        }
    }

    fn hole(&mut self, hole: &Hole, salt: u64) {
        self.raw(&hole.before);
        let patch = Patch { offset: self.run.bytes.len(), width: hole.width, salt, fill: hole.fill.clone() };
        self.run.patches.push(patch);
        self.run.bytes.resize(self.run.bytes.len() + hole.width, 0);
        self.raw(&hole.after);
    }

    /// A document or an array around steps. It is part of the run if its steps are one run.
    fn framed(&mut self, mut inner: Self) {
        inner.raw(&[0]);
        if !inner.ops.is_empty() {
            return self.push(Op::Framed(inner.finish()));
        }
        self.raw(&(inner.run.bytes.len() as u32 + 4).to_le_bytes());
        let start = self.run.bytes.len();
        self.raw(&inner.run.bytes);
        let moved =
            inner.run.patches.into_iter().map(|patch| Patch { offset: patch.offset + start, ..patch });
        self.run.patches.extend(moved);
    }

    fn repeat(&mut self, of: &Node, length: Lengths, (salt, stride): (u64, u64), scopes: &[Scope]) {
        let bytes = of.size.max.saturating_mul(length.max);
        match length.exact().filter(|_| of.size.min == of.size.max && bytes <= UNROLLED_BYTES_MAX) {
            Some(items) => self.unrolled(of, items, stride, scopes),
            None => {
                let mut item = Self::default();
                item.value(of, &[scopes, &[Scope::Loop]].concat(), Key::Item);
                let kind = kind(&of.shape).unwrap_or(0);
                self.push(Op::Repeat(Repeat { salt, stride, length, kind, item: item.finish() }));
            }
        }
    }

    fn unrolled(&mut self, of: &Node, items: usize, stride: u64, scopes: &[Scope]) {
        let mut inner = Self::default();
        for index in 0..items {
            let scope = Scope::Unrolled(item_place(stride, index));
            inner.field(&index.to_string(), of, &[scopes, &[scope]].concat());
        }
        self.framed(inner);
    }
}

/// The offset that an item of a generated array adds to the places of its values. A place is the start of a value's random words.
#[inline]
pub(crate) fn item_place(stride: u64, index: usize) -> u64 {
    stride.wrapping_mul(index as u64 + 1)
}

/// A value's place relative to the innermost loop of its scope, and the number of loops outside that scope.
fn place(node: &Node, scopes: &[Scope]) -> (u64, usize) {
    let (own, beyond) = scopes.split_at(node.depth.min(scopes.len()));
    let offset = own.iter().fold(0_u64, |sum, scope| match scope {
        Scope::Unrolled(place) => sum.wrapping_add(*place),
        Scope::Loop => sum,
    });
    (node.salt.wrapping_add(offset), beyond.iter().filter(|scope| **scope == Scope::Loop).count())
}

fn outer(levels: usize, op: Op) -> Op {
    if levels == 0 { op } else { Op::Outer { levels, value: vec![op] } }
}
