//! Parses `$date` with an object: a time that depends on the document's number, or a random one.

use crate::arguments::Args;
use crate::distribution::Whole;
use crate::error::Error;
use crate::fill::{Date, Fill};
use crate::node::{Hole, Shape};
use crate::parse::{Parser, duration};

/// Reads `{start, step, within}`.
pub(crate) fn parse(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["start", "step", "within"])?;
    let run_ms = parser.settings().start_ms;
    let start_ms = fields.get("start").map_or(Ok(run_ms), |args| start(&args, run_ms))?;
    let step_ms = fields.get("step").map_or(Ok(0), |args| duration::parse(&args))?;
    let within_ms = fields.get("within").map_or(Ok(0), |args| duration::parse(&args))?;
    if within_ms < 0 {
        return Err(fields.expected_at("within", "a duration of 0 or more; put the offset into \"start\""));
    }
    let date = Date { start_ms, step_ms, within_ms: Whole::uniform(0, within_ms) };
    Ok(Shape::Hole(Hole::bare(0x09, 8, Fill::Date(Box::new(date)))))
}

fn start(args: &Args<'_>, run_ms: i64) -> Result<i64, Error> {
    let expected = "an offset such as \"-1h\", or a date such as \"2026-01-31T00:00:00Z\"";
    let text = args.text(expected)?;
    if let Some(offset_ms) = duration::milliseconds(text) {
        return Ok(run_ms.wrapping_add(offset_ms));
    }
    let date = bson::DateTime::parse_rfc3339_str(text);
    date.map(bson::DateTime::timestamp_millis).map_err(|_| args.expected(expected))
}
