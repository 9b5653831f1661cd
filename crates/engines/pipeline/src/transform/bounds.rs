//! What one run of a program may use up. The library that runs programs knows no limits, so they are put around it.
//!
//! Whatever a program does, it asks for the table of its terms step by step: there its steps are counted, and there the depth of
//! the stack is looked at. A run that goes too far is left by unwinding, as there is no other way out. Steps are counted, not
//! seconds, so that an event that comes again fares as it did before. A text that is repeated is measured before it is made.
//!
//! Memory is not bounded: a sum, an array of what was, or one function of the library makes much in one step, and has no table to
//! ask. Programs are the operator's own; the guide says what they must mind.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use jaq_core::data::HasLut;
use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Cv, DataT, Lut, ValXs};
use jaq_json::{Error, Num, Val};

/// Steps of one run at most: some seconds.
pub(super) const STEPS_MAX: u64 = 10_000_000;
/// A text that a step makes counts as a step for each so many bytes.
const STEP_BYTES: usize = 64;
/// How far the stack may grow in a run, in bytes: threads have twice that.
const STACK_BYTES_MAX: usize = 1 << 20;
/// How deep values are looked at.
const DEPTH_MAX: usize = 512;

/// The name under which programs multiply. Nobody can type it.
pub(super) const PRODUCT: &str = "*";
/// The name of the library's own `range`, which takes no steps.
pub(super) const RANGE: &str = "_range";

/// What one run may use up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) steps_max: u64,
    /// Bytes of a text that is repeated.
    pub(super) bytes_max: usize,
}

/// Beyond what it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    Steps,
    Stack,
}

/// The types that programs run on.
pub(super) struct Bounded;

impl DataT for Bounded {
    type V<'a> = Val;
    type Data<'a> = &'a Run<'a>;
}

/// One run of a program.
pub(super) struct Run<'a> {
    lut: &'a Lut<Bounded>,
    bounds: Bounds,
    steps: Cell<u64>,
    /// Where the stack stood when it began.
    stack: usize,
}

impl<'a> HasLut<'a, Bounded> for &'a Run<'a> {
    fn lut(&self) -> &'a Lut<Bounded> {
        self.step(1);
        self.lut
    }
}

impl Run<'_> {
    fn step(&self, steps: u64) {
        self.steps.set(self.steps.get().saturating_add(steps));
        if self.steps.get() > self.bounds.steps_max {
            resume_unwind(Box::new(Beyond::Steps));
        }
        if self.stack.abs_diff(stack()) > STACK_BYTES_MAX {
            resume_unwind(Box::new(Beyond::Stack));
        }
    }
}

/// About where the stack stands.
fn stack() -> usize {
    let here = 0_u8;
    ptr::from_ref(&here).addr()
}

/// Does the work of a run.
///
/// # Errors
///
/// If it goes beyond its bounds.
pub(super) fn within<T>(
    lut: &Lut<Bounded>,
    bounds: Bounds,
    work: impl for<'r> FnOnce(&'r Run<'r>) -> T,
) -> Result<T, Beyond> {
    let run = Run { lut, bounds, steps: Cell::new(0), stack: stack() };
    catch_unwind(AssertUnwindSafe(|| work(&run))).map_err(|why| match why.downcast::<Beyond>() {
        Ok(beyond) => *beyond,
        // A defect, which ends the pipeline with its words.
        Err(other) => resume_unwind(other),
    })
}

/// All functions that programs may call.
pub(super) fn functions() -> impl Iterator<Item = Fun<Bounded>> {
    let all =
        jaq_core::funs::<Bounded>().chain(jaq_std::funs::<Bounded>()).chain(jaq_json::funs::<Bounded>());
    let all = all.map(|(name, args, fun)| (if name == "range" { RANGE } else { name }, args, fun));
    all.chain([run::<Bounded>((PRODUCT, v(2), product))])
}

/// A product, unless it is a text that is too long: that is refused before there is room for it.
fn product(mut cv: Cv<'_, Bounded>) -> ValXs<'_, Val> {
    let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
    let run = *cv.0.data();
    let bytes = repeated(&left, &right).or_else(|| repeated(&right, &left)).unwrap_or(0);
    if bytes > run.bounds.bytes_max {
        let words =
            format!("a text of {bytes} bytes would be made, and {} is the most", run.bounds.bytes_max);
        return bome(Err(Error::str(words)));
    }
    run.step((bytes / STEP_BYTES) as u64);
    bome(left * right)
}

/// How many bytes a text has that is repeated so often.
fn repeated(text: &Val, times: &Val) -> Option<usize> {
    let (Val::TStr(text) | Val::BStr(text), Val::Num(times)) = (text, times) else { return None };
    let times = match times {
        Num::Int(times) => usize::try_from(*times).unwrap_or(0),
        Num::BigInt(_) if *times < Num::Int(0) => 0,
        Num::BigInt(_) => usize::MAX,
        Num::Float(_) | Num::Dec(_) => return None,
    };
    Some(text.len().saturating_mul(times))
}

/// What a value says of itself, as far as it fits into so many bytes; and whether that is all.
pub(super) fn written(value: &impl fmt::Display, bytes_max: usize) -> (String, bool) {
    let mut page = Page { text: String::new(), bytes_max };
    let whole = write!(page, "{value}").is_ok();
    (page.text, whole)
}

/// Takes so many bytes of text, and no more.
struct Page {
    text: String,
    bytes_max: usize,
}

impl fmt::Write for Page {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = self.bytes_max - self.text.len();
        self.text.push_str(&more[..more.floor_char_boundary(room)]);
        if more.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Whether a value surely takes more than so many bytes. Its parts may be shared, so that it is larger than its memory.
pub(super) fn is_larger(value: &Val, bytes_max: usize) -> bool {
    let mut room = bytes_max;
    !fits(value, &mut room, 0)
}

fn fits(value: &Val, room: &mut usize, depth: usize) -> bool {
    let bytes = match value {
        Val::TStr(text) | Val::BStr(text) => text.len(),
        _ => 1,
    };
    let Some(left) = room.checked_sub(bytes) else { return false };
    *room = left;
    match value {
        // Deeper ones are refused for that.
        _ if depth == DEPTH_MAX => true,
        Val::Arr(items) => items.iter().all(|item| fits(item, room, depth + 1)),
        Val::Obj(fields) => {
            fields.iter().all(|(name, value)| fits(name, room, depth + 1) && fits(value, room, depth + 1))
        }
        _ => true,
    }
}
