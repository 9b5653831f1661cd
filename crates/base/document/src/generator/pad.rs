//! Parses `$pad`: text that pads the document to a size.

use crate::arguments::Args;
use crate::error::Error;
use crate::node::Shape;
use crate::parse::Parser;

/// Reads `{to: n}`; only at the top level, and only once.
pub(crate) fn parse(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let bytes_max = parser.settings().bytes_max;
    let expected = format!("a positive whole number up to {bytes_max}");
    let to = args.fields(&["to"])?.need("to", "write {to: 1024}")?;
    let to = to.whole_within(1, bytes_max as i64, &expected)? as usize;
    if !parser.claim_pad(args.path()) {
        return Err(Error::Misplaced {
            path: args.path().to_owned(),
            problem: "$pad may stand once, as a field of the document itself; move it there".to_owned(),
        });
    }
    Ok(Shape::Pad { to })
}
