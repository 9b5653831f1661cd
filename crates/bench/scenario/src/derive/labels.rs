//! Makes synthetic values in place of the few different values of a field.

use bson::Bson;
use serde_json::{Value, json};

use super::numbers::Numbers;
use super::values::Kind;

/// Synthetic values of the same types and sizes, one for each value, in the same order.
pub(super) fn synthetic(values: &[(Bson, u64)]) -> Vec<Value> {
    let mut made = Vec::new();
    for (value, _) in values {
        let next = match value {
            Bson::String(text) if text.is_empty() => "".into(),
            Bson::String(text) => letters(text.len(), values, &made),
            Bson::Boolean(_) | Bson::Null => value.clone().into_relaxed_extjson(),
            Bson::ObjectId(_) => json!({"$oid": format!("{:024x}", made.len() + 1)}),
            other => number(other, values),
        };
        made.push(next);
    }
    made
}

/// A text of `bytes` letters that is neither a value of the field nor an earlier label.
fn letters(bytes: usize, values: &[(Bson, u64)], made: &[Value]) -> Value {
    let is_taken = |label: &str| {
        made.iter().any(|other| other == label)
            || values.iter().any(|(value, _)| value.as_str() == Some(label))
    };
    let mut labels = (0..).map(|index| label(index, bytes)).filter(|label| !is_taken(label));
    labels.next().unwrap_or_default().into()
}

/// The label with this index, at least `bytes` letters long: `aaaa` for 0, `bbbb` for 1, `abab` for 27.
fn label(index: usize, bytes: usize) -> String {
    let (mut rest, mut pattern) = (index, Vec::new());
    loop {
        pattern.push(b'a' + (rest % 26) as u8);
        rest /= 26;
        if rest == 0 {
            break;
        }
        rest -= 1;
    }
    let length = bytes.max(pattern.len());
    pattern.iter().rev().cycle().take(length).map(|letter| char::from(*letter)).collect()
}

/// A text of `bytes` letters.
pub(super) fn text_of(bytes: usize) -> String {
    if bytes == 0 { String::new() } else { label(0, bytes) }
}

/// `count` numbers or dates, spread evenly over a range.
pub(super) fn numbers_over(range: &Numbers, kind: Kind, count: usize) -> Vec<Value> {
    places(range, kind, count).into_iter().map(|number| typed(number, kind)).collect()
}

fn places(range: &Numbers, kind: Kind, count: usize) -> Vec<f64> {
    let whole = !matches!(kind, Kind::Double | Kind::Decimal);
    let (low, high) = range.range(if whole { 1.0 } else { 0.0 });
    let last = count.saturating_sub(1).max(1) as f64;
    (0..count).map(|place| low + (high - low) * place as f64 / last).collect()
}

/// The synthetic number for `value`. The synthetic numbers of a type are spread evenly over its range and
/// keep the order of the values. No synthetic number equals a real value.
fn number(value: &Bson, values: &[(Bson, u64)]) -> Value {
    let same = || values.iter().filter(|(other, _)| other.element_type() == value.element_type());
    let (mut range, kind) = (Numbers::default(), kind(value));
    same().for_each(|(other, _)| range.add(real(other)));
    let place = same().filter(|(other, _)| real(other) < real(value)).count();
    let taken: Vec<_> = same().map(|(other, _)| typed(real(other), kind)).collect();
    let spread = places(&range, kind, same().count());
    free(&spread, step(&range, kind), kind, &taken).into_iter().nth(place).unwrap_or_default()
}

/// The least difference between two synthetic numbers.
fn step(range: &Numbers, kind: Kind) -> f64 {
    match kind {
        Kind::Int | Kind::Long => 1.0,
        Kind::Date => 1_000.0,
        _ => ((range.max - range.min) / 100.0).max(0.01),
    }
}

/// Moves each number up in steps until it is above the number before it and not in `taken`.
fn free(numbers: &[f64], step: f64, kind: Kind, taken: &[Value]) -> Vec<Value> {
    let mut lowest = f64::NEG_INFINITY;
    let mut made = Vec::new();
    for number in numbers {
        let mut number = number.max(lowest);
        let mut value = typed(number, kind);
        // Each taken value costs at most one step, unless the rounding in `typed` loses the step.
        for _ in 0..=taken.len() {
            if !taken.contains(&value) {
                break;
            }
            number += step;
            value = typed(number, kind);
        }
        lowest = number + step;
        made.push(value);
    }
    made
}

fn kind(value: &Bson) -> Kind {
    match value {
        Bson::Int32(_) => Kind::Int,
        Bson::Int64(_) => Kind::Long,
        Bson::DateTime(_) => Kind::Date,
        Bson::Decimal128(_) => Kind::Decimal,
        _ => Kind::Double,
    }
}

fn typed(number: f64, kind: Kind) -> Value {
    match kind {
        Kind::Int => (number.round() as i32).into(),
        Kind::Long => json!({"$numberLong": (number.round() as i64).to_string()}),
        Kind::Date => json!({"$date": {"$numberLong": (number.round() as i64).to_string()}}),
        Kind::Decimal => json!({"$numberDecimal": format!("{number:.2}")}),
        _ => json!({"$numberDouble": format!("{number:?}")}),
    }
}

fn real(value: &Bson) -> f64 {
    match value {
        Bson::Int32(number) => f64::from(*number),
        Bson::Int64(number) => *number as f64,
        Bson::Double(number) => *number,
        Bson::Decimal128(decimal) => decimal.to_string().parse().unwrap_or(0.0),
        Bson::DateTime(date) => date.timestamp_millis() as f64,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(values: impl IntoIterator<Item = Bson>) -> Vec<Value> {
        let values: Vec<_> = values.into_iter().map(|value| (value, 1)).collect();
        synthetic(&values)
    }

    #[test]
    fn a_label_has_the_length_of_its_value_and_is_none_of_the_values() {
        let labels = made(["paid", "open", "a", "aaaa", ""].map(|text| Bson::String(text.into())));
        assert_eq!(labels, ["bbbb", "cccc", "b", "dddd", ""]);
        let many = made((0..50).map(|index| Bson::String(format!("{index:02}"))));
        let mut unique: Vec<_> = many.iter().map(|label| label.as_str().unwrap()).collect();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), 50);
        assert!(unique.iter().all(|label| label.len() == 2));
    }

    #[test]
    fn numbers_are_spread_over_their_range_in_their_order_and_none_is_repeated() {
        assert_eq!(made([Bson::Int32(10), Bson::Int32(0), Bson::Int32(9)]), [json!(11), json!(1), json!(6)]);
        assert_eq!(made((1..=3).map(Bson::Int32)), [json!(0), json!(4), json!(5)]);
        assert_eq!(made([Bson::Int64(7)]), [json!({"$numberLong": "6"})]);
        assert_eq!(made([Bson::Double(0.5), Bson::Double(1.5)])[0], json!({"$numberDouble": "0.45"}));
        assert_eq!(made([Bson::Null, Bson::Boolean(true)]), [Value::Null, Value::Bool(true)]);
    }
}
