//! Bounds the steps, stack and repeated texts of a program's run. The library that runs programs has no limits.
//!
//! Every step of a program looks up a term in a table. The lookup counts the step and checks the stack depth.
//! A run that exceeds a bound ends by unwinding, the only way to end it. Counting steps instead of time gives
//! a repeated event the same result. A repeated text is measured before it is made.
//!
//! Memory is not bounded: a sum, a collected array or a library function can allocate much in one step without a table
//! lookup. Programs belong to the operator; the guide lists the risks.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use jaq_core::data::HasLut;
use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Cv, DataT, Lut, ValXs};
use jaq_json::{Error, Num, Val};

/// Steps of one run at most: some seconds.
pub const STEPS_MAX: u64 = 10_000_000;
/// Bytes of a repeated text that count as one step.
const STEP_BYTES: usize = 64;
/// The stack's largest growth in a run, in bytes. Threads have twice that.
const STACK_BYTES_MAX: usize = 1 << 20;
/// The depth to which values are measured.
const DEPTH_MAX: usize = 512;

/// The name of our product function. No program can contain it.
pub(crate) const PRODUCT: &str = "*";
/// The name by which our `range` calls the library's, which counts no steps.
pub(crate) const RANGE: &str = "_range";

/// The bounds of one run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Steps at most.
    pub steps_max: u64,
    /// Bytes of a repeated text at most.
    pub bytes_max: usize,
}

/// The bound that a run exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    Steps,
    Stack,
}

/// The data types of programs.
pub(crate) struct Bounded;

impl DataT for Bounded {
    type V<'a> = Val;
    type Data<'a> = &'a Run<'a>;
}

/// The state of one run of a program.
pub(crate) struct Run<'a> {
    lut: &'a Lut<Bounded>,
    bounds: Bounds,
    steps: Cell<u64>,
    /// The stack address at the start.
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

/// The approximate stack address.
fn stack() -> usize {
    let here = 0_u8;
    ptr::from_ref(&here).addr()
}

/// Runs `work` within the bounds. Also returns the steps that it took.
///
/// # Errors
///
/// If `work` exceeds a bound.
pub(crate) fn within<T>(
    lut: &Lut<Bounded>,
    bounds: Bounds,
    work: impl for<'r> FnOnce(&'r Run<'r>) -> T,
) -> (Result<T, Beyond>, u64) {
    let run = Run { lut, bounds, steps: Cell::new(0), stack: stack() };
    let given = catch_unwind(AssertUnwindSafe(|| work(&run))).map_err(|why| match why.downcast::<Beyond>() {
        Ok(beyond) => *beyond,
        // Another panic is a defect: it goes on and ends the pipeline with its message.
        Err(other) => resume_unwind(other),
    });
    (given, run.steps.get())
}

/// All functions that programs may call.
pub(crate) fn functions() -> impl Iterator<Item = Fun<Bounded>> {
    let all =
        jaq_core::funs::<Bounded>().chain(jaq_std::funs::<Bounded>()).chain(jaq_json::funs::<Bounded>());
    let all = all.map(|(name, args, fun)| (if name == "range" { RANGE } else { name }, args, fun));
    all.chain([run::<Bounded>((PRODUCT, v(2), product))])
}

/// Multiplies two values. A repeated text that would be too long is refused before its memory is allocated.
fn product(mut cv: Cv<'_, Bounded>) -> ValXs<'_, Val> {
    let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
    let run = *cv.0.data();
    let bytes = repeated(&left, &right).or_else(|| repeated(&right, &left)).unwrap_or(0);
    if bytes > run.bounds.bytes_max {
        let words = format!(
            "the program would make a text of {bytes} bytes, and at most {} are allowed",
            run.bounds.bytes_max
        );
        return bome(Err(Error::str(words)));
    }
    run.step((bytes / STEP_BYTES) as u64);
    bome(left * right)
}

/// The length of a repeated text in bytes. `None` unless the values are a text and a whole number.
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

/// The text of a value, cut at `bytes_max`, and whether it is complete.
pub fn written(value: &impl fmt::Display, bytes_max: usize) -> (String, bool) {
    let mut page = Page { text: String::new(), bytes_max };
    let whole = write!(page, "{value}").is_ok();
    (page.text, whole)
}

/// A text buffer of limited size.
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

/// Whether the text of a value certainly has more than `bytes_max` bytes. Parts of a value may be shared, so
/// its text can exceed its memory.
pub fn is_larger(value: &Val, bytes_max: usize) -> bool {
    let mut room = bytes_max;
    !fits(value, &mut room, 0)
}

/// Whether a value has a JSON form: finite numbers, texts, and objects whose keys are texts.
pub fn is_json(value: &Val) -> bool {
    match value {
        Val::Num(Num::Float(number)) => number.is_finite(),
        Val::BStr(_) => false,
        Val::Arr(items) => items.iter().all(is_json),
        Val::Obj(fields) => fields.iter().all(|(name, value)| matches!(name, Val::TStr(_)) && is_json(value)),
        Val::Null | Val::Bool(_) | Val::Num(_) | Val::TStr(_) => true,
    }
}

fn fits(value: &Val, room: &mut usize, depth: usize) -> bool {
    let bytes = match value {
        Val::TStr(text) | Val::BStr(text) => text.len(),
        _ => 1,
    };
    let Some(left) = room.checked_sub(bytes) else { return false };
    *room = left;
    match value {
        // Deeper values are refused elsewhere.
        _ if depth == DEPTH_MAX => true,
        Val::Arr(items) => items.iter().all(|item| fits(item, room, depth + 1)),
        Val::Obj(fields) => {
            fields.iter().all(|(name, value)| fits(name, room, depth + 1) && fits(value, room, depth + 1))
        }
        _ => true,
    }
}
