//! Parses `$sequence`: numbers that rise with the document's number.

use crate::arguments::{Args, Fields};
use crate::error::{Error, suggestion};
use crate::fill::{Fill, Sequence};
use crate::node::{Hole, Shape};
use crate::parse::Parser;

const TYPES: [&str; 3] = ["int", "long", "double"];

/// Reads `{start: 0, step: 1, type: long}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["start", "step", "type"])?;
    let name = fields.get("type");
    let (kind, width, sequence) =
        match name.as_ref().map_or(Ok("long"), |args| args.text("int, long or double"))? {
            "int" => {
                let (start, step) = whole(&fields, i64::from(i32::MIN), i64::from(i32::MAX))?;
                (0x10, 4, Sequence::Int { start, step })
            }
            "long" => {
                let (start, step) = whole(&fields, i64::MIN, i64::MAX)?;
                (0x12, 8, Sequence::Long { start, step })
            }
            "double" => {
                let real = |name, default| fields.get(name).map_or(Ok(default), |args: Args<'_>| args.real());
                (0x01, 8, Sequence::Double { start: real("start", 0.0)?, step: real("step", 1.0)? })
            }
            other => {
                let expected = format!("int, long or double ({})", suggestion(other, &TYPES));
                return Err(fields.expected_at("type", &expected));
            }
        };
    Ok(Shape::Hole(Hole::bare(kind, width, Fill::Sequence(sequence))))
}

fn whole(fields: &Fields<'_>, min: i64, max: i64) -> Result<(i64, i64), Error> {
    let expected = format!("a whole number from {min} to {max}");
    let read = |name, default| {
        fields.get(name).map_or(Ok(default), |args: Args<'_>| args.whole_within(min, max, &expected))
    };
    Ok((read("start", 0)?, read("step", 1)?))
}
