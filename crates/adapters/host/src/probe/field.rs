//! Reads single nested fields of a server's answer.

use bson::RawDocument;
use bson::raw::RawBsonRef;

/// The value at a path. Keys may contain dots and spaces, so a path is a list.
pub(crate) fn at<'a>(document: &'a RawDocument, path: &[&str]) -> Option<RawBsonRef<'a>> {
    let (last, above) = path.split_last()?;
    let inner = above.iter().try_fold(document, |document, key| document.get_document(key).ok())?;
    inner.get(last).ok()?
}

/// A count of any numeric type. A negative value is an overflow or an error, so it is absent.
pub(crate) fn count(document: &RawDocument, path: &[&str]) -> Option<u64> {
    match at(document, path)? {
        RawBsonRef::Int32(number) => u64::try_from(number).ok(),
        RawBsonRef::Int64(number) => u64::try_from(number).ok(),
        RawBsonRef::Double(number) if number.is_finite() && number >= 0.0 => Some(number as u64),
        _ => None,
    }
}

/// A time in milliseconds since 1970; earlier times are absent.
pub(crate) fn milliseconds(document: &RawDocument, path: &[&str]) -> Option<u64> {
    match at(document, path)? {
        RawBsonRef::DateTime(moment) => u64::try_from(moment.timestamp_millis()).ok(),
        _ => None,
    }
}

/// The text at a path.
pub(crate) fn text(document: &RawDocument, path: &[&str]) -> Option<String> {
    at(document, path)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_count_is_read_from_any_number() {
        let document = rawdoc! {"a": {"b c": 5, "d": 6_i64, "e": 7.0, "f": -1, "g": "8", "h": f64::NAN}};
        let counts = ["b c", "d", "e", "f", "g", "h", "missing"].map(|key| count(&document, &["a", key]));
        assert_eq!(counts, [Some(5), Some(6), Some(7), None, None, None, None]);
        assert_eq!(count(&document, &["x", "y"]), None);
    }

    #[test]
    fn a_time_is_read_from_a_date_only() {
        let date = bson::DateTime::from_millis(1_700_000_000_500);
        let document = rawdoc! {"a": date, "b": 5_i64, "c": bson::DateTime::from_millis(-1)};
        let moments = ["a", "b", "c", "missing"].map(|key| milliseconds(&document, &[key]));
        assert_eq!(moments, [Some(1_700_000_000_500), None, None, None]);
    }
}
