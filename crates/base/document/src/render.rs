//! Encodes a document by the steps of a program.

use crate::Identity;
use crate::compile::{Key, Op, Patch, Repeat, Run, item_place};
use crate::fill::{fill_bytes, fill_digits, fill_text};
use crate::node::{Family, digits, string_length};
use crate::random::Draw;

/// Enough digits for an array's largest key.
const KEY_MAX: usize = 20;

/// The current document, seen from within a generated array.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    number: u64,
    identity: &'a Identity,
    /// The base of the places in this scope.
    base: u64,
    outer: Option<&'a Scope<'a>>,
    /// The distance from the current item's type byte to its value.
    key_bytes: usize,
}

impl<'a> Scope<'a> {
    /// The document itself.
    #[inline]
    pub(crate) fn new(base: u64, number: u64, identity: &'a Identity) -> Self {
        Self { number, identity, base, outer: None, key_bytes: 0 }
    }

    /// The inputs of the hole at a place.
    #[inline]
    pub(crate) fn draw(&self, salt: u64) -> Draw<'a> {
        Draw { place: self.base.wrapping_add(salt), number: self.number, identity: self.identity }
    }

    fn climb(&self, levels: usize) -> Scope<'a> {
        let mut scope = *self;
        for _ in 0..levels {
            scope = scope.outer.copied().unwrap_or(scope);
        }
        Scope { key_bytes: self.key_bytes, ..scope }
    }
}

/// Appends the output of the steps.
pub(crate) fn render(ops: &[Op], scope: &Scope<'_>, out: &mut Vec<u8>) {
    for op in ops {
        match op {
            Op::Run(run) => copy(run, scope, out),
            Op::Text { salt, lengths } => {
                let draw = scope.draw(*salt);
                text(&draw, lengths.value(draw.first()), out);
            }
            Op::Bytes { salt, lengths } => {
                let draw = scope.draw(*salt);
                bytes(&draw, lengths.value(draw.first()), out);
            }
            Op::Family { salt, family: of } => family(of, &scope.draw(*salt), out),
            Op::Pick { salt, chooser, choices, key } => {
                let (kind, value) = &choices[chooser.index(&scope.draw(*salt))];
                pick(*kind, value, *key, scope, out);
            }
            Op::Framed(inner) => framed(out, |out| render(inner, scope, out)),
            Op::Repeat(repeat) => framed(out, |out| items(repeat, scope, out)),
            Op::Optional { salt, presence, field } => {
                if presence.sample(scope.draw(*salt).first()) {
                    render(field, scope, out);
                }
            }
            Op::Outer { levels, value } => render(value, &scope.climb(*levels), out),
        }
    }
}

/// Appends a run: one copy, then its patches.
#[inline]
pub(crate) fn copy(run: &Run, scope: &Scope<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&run.bytes);
    let copy = &mut out[start..];
    for Patch { offset, width, salt, fill } in &run.patches {
        fill.write(&scope.draw(*salt), &mut copy[*offset..*offset + *width]);
    }
}

/// Appends a length and the output of `inner`, and then sets the length.
#[inline]
fn framed(out: &mut Vec<u8>, inner: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    inner(out);
    let bytes = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
}

/// Appends a string of exactly this many random bytes.
#[inline]
fn text(draw: &Draw<'_>, bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&string_length(bytes));
    let start = out.len();
    out.resize(start + bytes + 1, 0);
    fill_text(&mut draw.words(), &mut out[start..start + bytes]);
}

fn bytes(draw: &Draw<'_>, bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes as u32).to_le_bytes());
    let start = out.len() + 1;
    out.resize(start + bytes, 0);
    fill_bytes(&mut draw.words(), &mut out[start..]);
}

fn family(family: &Family, draw: &Draw<'_>, out: &mut Vec<u8>) {
    let number = family.numbers.value(draw) as u64;
    let width = digits(number).max(family.digits);
    out.extend_from_slice(&string_length(family.prefix.len() + width));
    out.extend_from_slice(family.prefix.as_bytes());
    let start = out.len();
    out.resize(start + width + 1, 0);
    fill_digits(number, &mut out[start..start + width]);
}

fn pick(kind: u8, value: &[u8], key: Key, scope: &Scope<'_>, out: &mut Vec<u8>) {
    let back = match key {
        Key::Field(bytes) => bytes,
        Key::Item => scope.key_bytes,
    };
    let type_byte = out.len() - back;
    out[type_byte] = kind;
    out.extend_from_slice(value);
}

/// Appends the items of a generated array and the final zero.
fn items(repeat: &Repeat, scope: &Scope<'_>, out: &mut Vec<u8>) {
    let count = repeat.length.value(scope.draw(repeat.salt).first());
    let mut key = [0; KEY_MAX];
    for index in 0..count {
        let width = digits(index as u64);
        fill_digits(index as u64, &mut key[..width]);
        out.push(repeat.kind);
        out.extend_from_slice(&key[..width]);
        out.push(0);
        let inner = Scope {
            base: scope.base.wrapping_add(item_place(repeat.stride, index)),
            outer: Some(scope),
            key_bytes: width + 2,
            ..*scope
        };
        render(&repeat.item, &inner, out);
    }
    out.push(0);
}
