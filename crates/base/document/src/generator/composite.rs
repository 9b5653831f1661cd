//! Parses the generators around other values: `$array`, `$optional` and `$pick`.

use crate::arguments::{Args, Fields};
use crate::distribution::Whole;
use crate::error::Error;
use crate::fill::{Choice, Chooser, Fill};
use crate::node::{Hole, Shape};
use crate::parse::Parser;
use crate::random::Bernoulli;
use crate::size::Lengths;
use crate::{ARRAY_ITEMS_MAX, compile};

/// Reads `$array`, a generated number of generated items:
/// `{of: <value>, length: n | {min, max}}`.
pub(crate) fn array(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["of", "length"])?;
    let remedy = "write {of: <value>, length: 3}";
    let length = length(&fields.need("length", remedy)?)?;
    let of = parser.item(&fields.need("of", remedy)?)?;
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

/// Reads `$optional`, a field that some documents lack:
/// `{probability: 0.5, value: <value>}`.
pub(crate) fn optional(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["probability", "value"])?;
    let probability = fields.get("probability").map_or(Ok(0.5), |args| args.probability())?;
    let value = parser.value(&fields.need("value", "write {probability: 0.3, value: <value>}")?)?;
    if matches!(value.shape, Shape::Optional { .. }) {
        return Err(Error::Misplaced {
            path: args.path().to_owned(),
            problem: "the value of $optional cannot be $optional; multiply the probabilities".to_owned(),
        });
    }
    Ok(Shape::Optional { presence: Bernoulli::new(probability), value })
}

/// The largest number of values to pick from.
const CHOICES_MAX: usize = 1_000_000;

/// Reads `$pick`, one of several constants:
/// `[a, b, c]` or `{from: [a, b, c], weights: [1, 2, 3]}` or `{from, distribution}`.
pub(crate) fn pick(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    if args.value().is_array() {
        let choices = choices(parser, args)?;
        return Ok(shape(Chooser::Spread(Whole::uniform(0, choices.len() as i64 - 1)), choices));
    }
    let fields =
        args.fields_or(&["from", "weights", "distribution"], "a list, or {from: [...], weights: [...]}")?;
    let choices = choices(parser, &fields.need("from", "write {from: [1, 2, 3], weights: [5, 3, 1]}")?)?;
    let chooser = chooser(&fields, choices.len())?;
    Ok(shape(chooser, choices))
}

fn choices(parser: &mut Parser<'_>, args: &Args<'_>) -> Result<Vec<(u8, Vec<u8>)>, Error> {
    let expected = "a list of 1 to 1000000 constants";
    let list = args.list(expected)?;
    if list.is_empty() || list.len() > CHOICES_MAX {
        return Err(args.expected(expected));
    }
    let constant = |(index, value)| {
        let args = Args::new(format!("{}[{index}]", args.path()), value);
        let node = parser.value(&args)?;
        compile::constant(&node).ok_or_else(|| args.expected("a constant, without generators"))
    };
    list.iter().enumerate().map(constant).collect()
}

fn chooser(fields: &Fields<'_>, count: usize) -> Result<Chooser, Error> {
    let Some(weights) = fields.get("weights") else {
        return Ok(Chooser::Spread(Whole::new(0, count as i64 - 1, fields.get("distribution"), 1.0)?));
    };
    if fields.get("distribution").is_some() {
        return Err(fields.expected_at("distribution", "either \"weights\" or \"distribution\", not both"));
    }
    Ok(Chooser::Weighted(bounds(&weights, count)?))
}

/// The weights as rising thresholds for random words; the last threshold is the largest word.
fn bounds(args: &Args<'_>, count: usize) -> Result<Box<[u64]>, Error> {
    let expected = format!("a list of {count} weights, one for each value");
    let list = args.list(&expected)?;
    if list.len() != count {
        return Err(args.expected(&expected));
    }
    let weight = |(index, value)| {
        let args = Args::new(format!("{}[{index}]", args.path()), value);
        args.real_within(0.0, 1e15, "a weight from 0 to 1e15")
    };
    let weights = list.iter().enumerate().map(weight).collect::<Result<Vec<f64>, Error>>()?;
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return Err(args.expected("at least one weight above 0"));
    }
    let mut sum = 0.0;
    let bound = |weight: &f64| {
        sum += weight;
        // Rounding must not leave the last words without a value.
        if sum >= total { u64::MAX } else { (sum / total * (u64::MAX as f64)) as u64 }
    };
    Ok(weights.iter().map(bound).collect())
}

fn shape(chooser: Chooser, choices: Vec<(u8, Vec<u8>)>) -> Shape {
    let (kind, width) = (choices[0].0, choices[0].1.len());
    if choices.iter().any(|(other, bytes)| *other != kind || bytes.len() != width) {
        return Shape::Pick { chooser, choices };
    }
    let table = choices.into_iter().flat_map(|(_, bytes)| bytes).collect();
    Shape::Hole(Hole::bare(kind, width, Fill::Choice(Box::new(Choice { chooser, table }))))
}
