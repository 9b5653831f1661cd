//! Parses the generators of texts: `$text`, `$family` and `$pad`.

use crate::arguments::Args;
use crate::distribution::Whole;
use crate::error::Error;
use crate::fill::Fill;
use crate::node::{Family, Hole, Shape, digits};
use crate::parse::Parser;
use crate::size::Lengths;

/// Reads `$text`, lower-case letters and spaces:
/// `{bytes: n}` or `{min, max}`.
pub(crate) fn text(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let lengths = Lengths::parse(args, "bytes")?;
    Ok(match lengths.exact().filter(|bytes| *bytes <= crate::DOCUMENT_BYTES_MAX) {
        Some(bytes) => Shape::Hole(Hole::string("", bytes, Fill::Text)),
        None => Shape::Text(lengths),
    })
}

const COUNT_MAX: i64 = 1 << 53;
const DIGITS_MAX: i64 = 19;

/// Reads `$family`, numbered strings, such as the names of ten thousand sensors:
/// `{prefix, count, start: 0, digits, distribution}`.
pub(crate) fn family(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["prefix", "count", "start", "digits", "distribution"])?;
    let prefix = fields.get("prefix").map_or(Ok(""), |args| args.text("a text"))?.to_owned();
    let count = fields.need("count", "write {prefix: \"sensor-\", count: 10000}")?;
    let count = count.whole_within(1, COUNT_MAX, "a positive whole number up to 2^53")?;
    let start = fields
        .get("start")
        .map_or(Ok(0), |args| args.whole_within(0, COUNT_MAX, "a whole number from 0 to 2^53"))?;
    let numbers = Whole::new(start, start + count - 1, fields.get("distribution"), 1.0)?;
    let widest = digits(numbers.greatest() as u64);
    let least = fields
        .get("digits")
        .map_or(Ok(widest as i64), |args| args.whole_within(1, DIGITS_MAX, "a whole number from 1 to 19"))?
        as usize;
    Ok(if least >= widest {
        Shape::Hole(Hole::string(&prefix, least, Fill::Digits(numbers)))
    } else {
        Shape::Family(Family { prefix, digits: least, numbers })
    })
}

/// Reads `$pad`, text that pads the document to a size:
/// `{to: n}`; only at the top level, and only once.
pub(crate) fn pad(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let bytes_max = parser.settings().bytes_max;
    let expected = format!("a positive whole number up to {bytes_max}");
    let to = args.fields(&["to"])?.need("to", "write {to: 1024}")?;
    let to = to.whole_within(1, bytes_max as i64, &expected)? as usize;
    if !parser.claim_pad(args.path()) {
        return Err(Error::Misplaced {
            path: args.path().to_owned(),
            problem: "$pad is allowed once, as a top-level field; move it there".to_owned(),
        });
    }
    Ok(Shape::Pad { to })
}
