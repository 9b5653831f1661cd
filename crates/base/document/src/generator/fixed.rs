//! Parses `$bool`, `$date`, `$object_id`, `$uuid` and `$bytes`.

use plimsoll_element::kind;

use crate::arguments::Args;
use crate::distribution::Whole;
use crate::error::Error;
use crate::fill::{Date, Fill};
use crate::node::{Hole, Shape};
use crate::parse::{Parser, duration};
use crate::random::Bernoulli;
use crate::size::Lengths;

/// Reads `$bool`, true or false:
/// `{probability: 0.5}`.
pub(crate) fn bool(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let probability = args.fields(&["probability"])?.get("probability");
    let bernoulli = Bernoulli::new(probability.map_or(Ok(0.5), |args| args.probability())?);
    Ok(Shape::Hole(Hole::bare(kind::BOOLEAN, 1, Fill::Bool(bernoulli))))
}

/// Reads `$date` with an object of settings, `{start, step, within}`: a time that follows the document's
/// number, plus a random part.
pub(crate) fn date(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["start", "step", "within"])?;
    let run_ms = parser.settings().start_ms;
    let start_ms = fields.get("start").map_or(Ok(run_ms), |args| start(&args, run_ms))?;
    let step_ms = fields.get("step").map_or(Ok(0), |args| duration::parse(&args))?;
    let within_ms = fields.get("within").map_or(Ok(0), |args| duration::parse(&args))?;
    if within_ms < 0 {
        return Err(fields.expected_at("within", "a duration of 0 or more; put the offset into \"start\""));
    }
    let date = Date { start_ms, step_ms, within_ms: Whole::uniform(0, within_ms) };
    Ok(Shape::Hole(Hole::bare(kind::DATE, 8, Fill::Date(Box::new(date)))))
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

/// Reads `$object_id`: a random ObjectId.
pub(crate) fn object_id(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    args.fields(&[])?;
    Ok(Shape::Hole(Hole::bare(kind::OBJECT_ID, 12, Fill::Bytes)))
}

/// Reads `$uuid` with an empty object: a random UUID of version 4.
pub(crate) fn uuid(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    args.fields(&[])?;
    let before = vec![16, 0, 0, 0, kind::UUID];
    Ok(Shape::Hole(Hole { kind: kind::BINARY, before, fill: Fill::Uuid, width: 16, after: Vec::new() }))
}

/// Reads `$bytes`, random binary data:
/// `{size: n}` or `{min, max}`.
pub(crate) fn bytes(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let lengths = Lengths::parse(args, "size")?;
    Ok(match lengths.exact().filter(|size| *size <= crate::DOCUMENT_BYTES_MAX) {
        Some(size) => {
            let mut before = (size as u32).to_le_bytes().to_vec();
            before.push(0);
            Shape::Hole(Hole {
                kind: kind::BINARY,
                before,
                fill: Fill::Bytes,
                width: size,
                after: Vec::new(),
            })
        }
        None => Shape::Bytes(lengths),
    })
}
