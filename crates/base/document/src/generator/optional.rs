//! Parses `$optional`: a field that some documents lack.

use crate::arguments::Args;
use crate::error::Error;
use crate::node::Shape;
use crate::parse::Parser;
use crate::random::Odds;

/// Reads `{probability: 0.5, value: <value>}`.
pub(crate) fn parse(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["probability", "value"])?;
    let probability = fields.get("probability").map_or(Ok(0.5), |args| args.probability())?;
    let value = parser.value(&fields.need("value", "write {probability: 0.3, value: <value>}")?)?;
    if matches!(value.shape, Shape::Optional { .. }) {
        return Err(Error::Misplaced {
            path: args.path().to_owned(),
            problem: "the value of $optional cannot be $optional; multiply the probabilities".to_owned(),
        });
    }
    Ok(Shape::Optional { odds: Odds::new(probability), value })
}
