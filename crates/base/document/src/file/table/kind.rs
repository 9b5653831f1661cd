//! Converts the text of a cell to a value by the type of its column.

use std::str::FromStr;

use bson::{DateTime, Decimal128};
use plimsoll_element::kind;

use crate::file::table_error::Problem;

/// The type of a column.
///
/// These are the types that this crate shares with mongoimport's `--columnsHaveTypes`. `binary()`, `date_ms()` and
/// `date_oracle()` are unsupported. Go's layouts in `date()` are unsupported, except RFC 3339 and a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `auto()`, or no type at all. In this order, and without regard to quotes:
    ///
    /// 1. a whole number in JSON's form, within 64 bits: int32, or int64;
    /// 2. any other number in JSON's form (`1.5`, `-2e6`): double;
    /// 3. `true` or `false`: boolean;
    /// 4. a timestamp of RFC 3339 (`2026-01-31T12:00:00Z`): date, in milliseconds;
    /// 5. any other value: string. So `007`, `+49`, `1,5`, `.5`, `NaN`, and whole numbers that need more than 64 bits,
    ///    keep every digit (mongoimport converts some to numbers).
    Auto,
    /// `boolean()`: `true` or `1`, `false` or `0`, in any case.
    Boolean,
    /// `date()`: a timestamp of RFC 3339. Also `date(2006-01-02T15:04:05Z07:00)`, its layout in Go.
    Date,
    /// `date(2006-01-02)`: a day; midnight in UTC.
    Day,
    /// `decimal()`: a decimal of 128 bits.
    Decimal,
    /// `double()`: any number.
    Double,
    /// `int32()`: a whole number of 32 bits.
    Int32,
    /// `int64()`: a whole number of 64 bits.
    Int64,
    /// `string()`: the text as it is.
    String,
}

/// A value in BSON's form.
#[derive(Debug, PartialEq)]
enum Value<'a> {
    Boolean(bool),
    Date(i64),
    Decimal([u8; 16]),
    Double(f64),
    Int32(i32),
    Int64(i64),
    String(&'a str),
}

impl Kind {
    /// The type with this name and argument.
    pub(super) fn read(name: &str, argument: &str) -> Result<Self, Problem> {
        let kind = match name {
            "auto" => Self::Auto,
            "boolean" => Self::Boolean,
            "date" => return date(argument),
            "decimal" => Self::Decimal,
            "double" => Self::Double,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "string" => Self::String,
            _ => return Err(Problem::NoKind { kind: name.to_owned() }),
        };
        if argument.is_empty() { Ok(kind) } else { Err(unknown(name, argument)) }
    }

    /// Appends an element: type byte, key (with its NUL), value.
    pub(super) fn append(self, key: &[u8], text: &str, out: &mut Vec<u8>) -> Result<(), Problem> {
        let value = self.value(text).ok_or_else(|| self.misfit(text))?;
        value.append(key, out);
        Ok(())
    }

    fn value(self, text: &str) -> Option<Value<'_>> {
        match self {
            Self::Auto => Some(auto(text)),
            Self::Boolean => boolean(text),
            Self::Date => timestamp(text),
            Self::Day => timestamp(&format!("{text}T00:00:00Z")),
            Self::Decimal => Decimal128::from_str(text).ok().map(|decimal| Value::Decimal(decimal.bytes())),
            Self::Double => text.parse().ok().map(Value::Double),
            Self::Int32 => text.parse().ok().map(Value::Int32),
            Self::Int64 => text.parse().ok().map(Value::Int64),
            Self::String => Some(Value::String(text)),
        }
    }

    fn misfit(self, text: &str) -> Problem {
        const CHARACTERS_MAX: usize = 40;
        let mut value: String = text.chars().take(CHARACTERS_MAX).collect();
        if value.len() < text.len() {
            value.push('…');
        }
        Problem::Misfit { value, kind: self.name() }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "value",
            Self::Boolean => "boolean (true, false, 1, 0)",
            Self::Date => "date (as 2026-01-31T12:00:00Z)",
            Self::Day => "day (as 2026-01-31)",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Int32 => "int32 (a whole number from -2147483648 to 2147483647)",
            Self::Int64 => "int64 (a whole number from -9223372036854775808 to 9223372036854775807)",
            Self::String => "string",
        }
    }
}

impl Value<'_> {
    fn append(&self, key: &[u8], out: &mut Vec<u8>) {
        let mut element = |kind: u8, value: &[u8]| {
            out.push(kind);
            out.extend_from_slice(key);
            out.extend_from_slice(value);
        };
        match self {
            Self::Double(value) => element(kind::DOUBLE, &value.to_le_bytes()),
            Self::String(text) => {
                // No row is longer than a document may be, so the length fits 32 bits.
                element(kind::STRING, &(text.len() as u32 + 1).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
            Self::Boolean(value) => element(kind::BOOLEAN, &[u8::from(*value)]),
            Self::Date(value) => element(kind::DATE, &value.to_le_bytes()),
            Self::Int32(value) => element(kind::INT32, &value.to_le_bytes()),
            Self::Int64(value) => element(kind::INT64, &value.to_le_bytes()),
            Self::Decimal(value) => element(kind::DECIMAL, value),
        }
    }
}

fn date(layout: &str) -> Result<Kind, Problem> {
    match layout {
        "" | "2006-01-02T15:04:05Z" | "2006-01-02T15:04:05Z07:00" => Ok(Kind::Date),
        "2006-01-02" => Ok(Kind::Day),
        _ => Err(unknown("date", layout)),
    }
}

fn unknown(kind: &str, argument: &str) -> Problem {
    Problem::Argument { kind: kind.to_owned(), argument: argument.to_owned() }
}

fn auto(text: &str) -> Value<'_> {
    let found = match text.as_bytes() {
        b"true" => Some(Value::Boolean(true)),
        b"false" => Some(Value::Boolean(false)),
        [b'0'..=b'9' | b'-', ..] => number(text).or_else(|| timestamp(text)),
        _ => None,
    };
    found.unwrap_or(Value::String(text))
}

fn boolean(text: &str) -> Option<Value<'static>> {
    match text {
        "1" => Some(Value::Boolean(true)),
        "0" => Some(Value::Boolean(false)),
        _ => text.to_ascii_lowercase().parse().ok().map(Value::Boolean),
    }
}

fn timestamp(text: &str) -> Option<Value<'static>> {
    DateTime::parse_rfc3339_str(text).ok().map(|date| Value::Date(date.timestamp_millis()))
}

/// A number in JSON's form (RFC 8259, section 6); `None` if a whole number exceeds 64 bits, or a double is infinite.
fn number(text: &str) -> Option<Value<'static>> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    if rest.is_empty() {
        let value: i64 = text.parse().ok()?;
        return Some(i32::try_from(value).map_or(Value::Int64(value), Value::Int32));
    }
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => Some(digits(fraction)).filter(|len| *len > 0).map(|len| &fraction[len..])?,
        None => rest,
    };
    let is_number = rest.is_empty() || exponent(rest);
    text.parse().ok().filter(|value: &f64| is_number && value.is_finite()).map(Value::Double)
}

fn exponent(text: &str) -> bool {
    let digits = text.strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untyped_column_converts_numbers_booleans_and_timestamps_only() {
        let date = Value::Date(1_769_860_800_123);
        for (text, value) in [
            ("0", Value::Int32(0)),
            ("-5", Value::Int32(-5)),
            ("2147483647", Value::Int32(i32::MAX)),
            ("2147483648", Value::Int64(2_147_483_648)),
            ("-9223372036854775808", Value::Int64(i64::MIN)),
            ("1.50", Value::Double(1.5)),
            ("-0.25", Value::Double(-0.25)),
            ("2e6", Value::Double(2e6)),
            ("1.5E-3", Value::Double(0.0015)),
            ("true", Value::Boolean(true)),
            ("false", Value::Boolean(false)),
            ("2026-01-31T12:00:00.123Z", date),
            ("2026-01-31T14:00:00+02:00", Value::Date(1_769_860_800_000)),
        ] {
            assert_eq!(auto(text), value, "{text}");
        }
        for text in [
            "007",
            "-",
            "--1",
            "+49",
            "1,5",
            ".5",
            "5.",
            "1e",
            "1e+",
            "1.5x",
            "1e999",
            "NaN",
            "Infinity",
            "0x10",
            "1_000",
            "9223372036854775808",
            "TRUE",
            "null",
            " 5",
            "2026-01-31",
            "2026-13-31T12:00:00Z",
            "2026-01-31T12:00:00",
            "1234-5",
            "ä",
        ] {
            assert_eq!(auto(text), Value::String(text), "{text}");
        }
    }

    #[test]
    fn a_type_accepts_the_values_that_mongoimport_accepts_and_no_others() {
        let check = |kind: &str, text: &str, value: Option<Value<'_>>| {
            assert_eq!(Kind::read(kind, "").unwrap().value(text), value, "{kind} {text}");
        };
        check("string", "5", Some(Value::String("5")));
        check("int32", "007", Some(Value::Int32(7)));
        check("int32", "2147483648", None);
        check("int32", "1.0", None);
        check("int64", "+2147483648", Some(Value::Int64(2_147_483_648)));
        check("double", "7", Some(Value::Double(7.0)));
        check("double", "1,5", None);
        check("boolean", "TRUE", Some(Value::Boolean(true)));
        check("boolean", "0", Some(Value::Boolean(false)));
        check("boolean", "yes", None);
        check("date", "2026-01-31T12:00:00Z", Some(Value::Date(1_769_860_800_000)));
        check("date", "2026-01-31", None);
        check("auto", "5", Some(Value::Int32(5)));
        let decimal: Decimal128 = "9.99".parse().unwrap();
        check("decimal", "9.99", Some(Value::Decimal(decimal.bytes())));
        check("decimal", "much", None);
        let day = Kind::read("date", "2006-01-02").unwrap();
        assert_eq!(day.value("2026-01-31"), Some(Value::Date(1_769_817_600_000)));
        assert_eq!(day.value("2026-01-31T12:00:00Z"), None);
        assert_eq!(Kind::read("date", "2006-01-02T15:04:05Z07:00"), Ok(Kind::Date));
    }

    #[test]
    fn a_long_value_in_a_message_is_cut() {
        let Problem::Misfit { value, .. } = Kind::Int32.misfit(&"ü".repeat(1000)) else {
            panic!("no misfit")
        };
        assert_eq!(value.chars().count(), 41);
    }
}
