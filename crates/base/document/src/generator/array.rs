//! Parses `$array`: a generated number of generated items.

use crate::ARRAY_ITEMS_MAX;
use crate::arguments::Args;
use crate::error::Error;
use crate::node::Shape;
use crate::parse::Parser;
use crate::size::Lengths;

/// Reads `{of: <value>, length: n | {min, max}}`.
pub(crate) fn parse(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["of", "length"])?;
    let mend = "write {of: <value>, length: 3}";
    let length = length(&fields.need("length", mend)?)?;
    let of = parser.item(&fields.need("of", mend)?)?;
    if matches!(of.shape, Shape::Optional { .. }) {
        return Err(Error::Misplaced {
            path: args.path().to_owned(),
            problem: "an item cannot be $optional; give the array a length of {min, max}".to_owned(),
        });
    }
    Ok(Shape::Repeat { of, length })
}

fn length(args: &Args<'_>) -> Result<Lengths, Error> {
    if args.value().is_object() {
        return Lengths::parse_range(&args.fields(&["min", "max"])?, ARRAY_ITEMS_MAX);
    }
    let expected = format!("a whole number from 0 to {ARRAY_ITEMS_MAX}, or {{min, max}}");
    let items = args.whole_within(0, ARRAY_ITEMS_MAX as i64, &expected)? as usize;
    Ok(Lengths { min: items, max: items })
}
