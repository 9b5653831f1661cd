//! Names `_id`s: two `_id`s have the same name exactly if a server takes them for the same, except JavaScript code with a scope.
//!
//! Numbers of all types compare by value, also inside of a document: `1`, `1.0` and a decimal `1.00` are one `_id`. A symbol and
//! a string of the same text are one `_id` too. All other values compare by their bytes. So code with the scopes `{n: 1}` and
//! `{n: 1.0}` has two names, although it is one `_id`; the type is deprecated. A collation of the collection is ignored.

use std::borrow::Cow;

use plimsoll_element::{Element, kind, valid};

/// A text of a deprecated type.
const SYMBOL: u8 = 0x0e;
/// Decimals: the exponent of the coefficient's last digit is this less than the stored one.
const DECIMAL_BIAS: i32 = 6176;
/// The largest coefficient of a decimal; a larger one counts as zero.
const COEFFICIENT_MAX: u128 = 9_999_999_999_999_999_999_999_999_999_999_999;
/// Whole doubles below this are exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// More digits than any double has, so that its text is exact.
const DIGITS: usize = 800;

/// The name of an element's value.
pub fn name<'a>(element: &Element<'_>, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match element.kind {
        kind::DOUBLE | kind::INT32 | kind::INT64 | kind::DECIMAL | kind::DOCUMENT | SYMBOL => {
            let mut out = Vec::new();
            append(&mut out, element);
            Cow::Owned(out)
        }
        _ => Cow::Borrowed(bytes.get(element.range_in(bytes)).unwrap_or_default()),
    }
}

/// Appends a type, a key and a value. The end of each is recognisable.
fn append(out: &mut Vec<u8>, element: &Element<'_>) {
    let number = number(element);
    out.push(match element.kind {
        _ if number.is_some() => kind::DOUBLE,
        SYMBOL => kind::STRING,
        other => other,
    });
    out.extend_from_slice(element.key);
    out.push(0);
    match (number, element.kind) {
        (Some(number), _) => {
            out.extend_from_slice(number.as_bytes());
            out.push(0);
        }
        (None, kind::DOCUMENT | kind::ARRAY) => {
            valid(element.value).for_each(|inner| append(out, &inner));
            out.push(0);
        }
        (None, _) => out.extend_from_slice(element.value),
    }
}

/// The text of a number, which is the same for equal numbers.
fn number(element: &Element<'_>) -> Option<String> {
    match element.kind {
        kind::INT32 | kind::INT64 => element.as_i64().map(|number| number.to_string()),
        kind::DOUBLE => element.value.first_chunk().map(|bits| of_double(f64::from_le_bytes(*bits))),
        kind::DECIMAL => element.value.first_chunk().map(|bits| of_decimal(u128::from_le_bytes(*bits))),
        _ => None,
    }
}

fn of_double(number: f64) -> String {
    if !number.is_finite() {
        return of_special(number.is_nan(), number.is_sign_negative());
    }
    if number.fract() == 0.0 && number.abs() < EXACT_MAX {
        return (number as i64).to_string();
    }
    let text = format!("{:.DIGITS$e}", number.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.replace('.', "");
    let last = exponent.parse::<i32>().unwrap_or(0) - DIGITS as i32;
    of_digits(number.is_sign_negative(), &digits, last)
}

/// The layout is that of IEEE 754-2008 with an integer coefficient.
fn of_decimal(bits: u128) -> String {
    let is_negative = bits >> 127 == 1;
    let combination = (bits >> 122) & 0b1_1111;
    if combination >= 0b1_1110 {
        return of_special(combination == 0b1_1111, is_negative);
    }
    // With these two bits the coefficient would be above the largest, so it is zero.
    let is_zero = combination >> 3 == 0b11;
    let coefficient = if is_zero { 0 } else { bits & ((1 << 113) - 1) };
    let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
    let exponent = ((bits >> 113) & ((1 << 14) - 1)) as i32 - DECIMAL_BIAS;
    of_digits(is_negative, &coefficient.to_string(), exponent)
}

fn of_special(is_nan: bool, is_negative: bool) -> String {
    match (is_nan, is_negative) {
        (true, _) => "nan".to_owned(),
        (false, true) => "-inf".to_owned(),
        (false, false) => "inf".to_owned(),
    }
}

/// The text of a number from its digits and the exponent of the last one: a whole number of 64 bits as itself.
fn of_digits(is_negative: bool, digits: &str, last: i32) -> String {
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return "0".to_owned();
    }
    let last = last + (digits.len() - kept.len()) as i32;
    let sign = if is_negative { "-" } else { "" };
    let whole = usize::try_from(last).ok().filter(|zeros| kept.len() + zeros <= i64::MAX.to_string().len());
    let whole = whole.map(|zeros| format!("{sign}{kept}{:0<zeros$}", ""));
    match whole.filter(|text| text.parse::<i64>().is_ok()) {
        Some(whole) => whole,
        None => format!("{sign}{kept}e{last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, doc};

    fn named(id: &Bson) -> Vec<u8> {
        let document = doc! {"_id": id.clone()}.to_vec().unwrap();
        let element = plimsoll_element::find(&document, b"_id").unwrap();
        name(&element, &document).into_owned()
    }

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn equal_numbers_of_all_types_have_one_name() {
        let equal: [Vec<Bson>; 10] = [
            vec![1.into(), 1_i64.into(), 1.0.into(), decimal("1"), decimal("1.00"), decimal("10E-1")],
            vec![0.into(), 0_i64.into(), 0.0.into(), (-0.0).into(), decimal("-0.0"), decimal("0E+9")],
            vec![(-700).into(), (-700_i64).into(), (-700.0).into(), decimal("-7E+2")],
            vec![0.5.into(), decimal("0.5"), decimal("5.0E-1")],
            vec![1e20.into(), decimal("1E+20"), decimal("100000000000000000000")],
            vec![i64::MIN.into(), (i64::MIN as f64).into(), decimal("-9223372036854775808")],
            vec![i64::MAX.into(), decimal("9223372036854775807")],
            vec![f64::INFINITY.into(), decimal("Infinity")],
            vec![f64::NEG_INFINITY.into(), decimal("-Infinity")],
            vec![f64::NAN.into(), (-f64::NAN).into(), decimal("NaN")],
        ];
        for all in &equal {
            all.iter().for_each(|id| assert_eq!(named(id), named(&all[0]), "{id} {}", all[0]));
        }
        for (at, all) in equal.iter().enumerate() {
            equal[..at].iter().for_each(|others| assert_ne!(named(&others[0]), named(&all[0])));
        }
    }

    #[test]
    fn different_values_have_different_names() {
        let different: Vec<Bson> = vec![
            0.1.into(),
            decimal("0.1"),
            (i64::MAX as f64).into(),
            i64::MAX.into(),
            "1".into(),
            true.into(),
            bson::DateTime::from_millis(1).into(),
            1.into(),
            doc! {"a": 1}.into(),
            doc! {"a": "1"}.into(),
            doc! {"a": 1, "b": 2}.into(),
            doc! {"b": 2, "a": 1}.into(),
            doc! {"a": {"b": 1}}.into(),
            doc! {"a": {}, "b": 1}.into(),
            doc! {"a": [1]}.into(),
            1e-300.into(),
            2e-300.into(),
        ];
        for (at, id) in different.iter().enumerate() {
            different[..at].iter().for_each(|other| assert_ne!(named(other), named(id), "{other} {id}"));
        }
    }

    #[test]
    fn a_symbol_and_a_string_of_one_text_have_one_name() {
        let symbol = |text: &str| Bson::Symbol(text.to_owned());
        assert_eq!(named(&symbol("a")), named(&"a".into()));
        assert_eq!(named(&doc! {"a": [symbol("b")]}.into()), named(&doc! {"a": ["b"]}.into()));
        assert_ne!(named(&symbol("a")), named(&"b".into()));
    }

    #[test]
    fn equal_numbers_inside_of_documents_have_one_name() {
        let first = doc! {"a": 1, "b": {"c": [2_i64, "x"]}};
        let second = doc! {"a": 1.0, "b": {"c": [decimal("2.0"), "x"]}};
        assert_eq!(named(&first.into()), named(&second.into()));
    }
}
