//! Reads single fields of a server's answer; numbers may have any numeric type.

use bson::RawDocument;
use bson::raw::RawBsonRef;

/// A whole number.
pub(crate) fn integer(document: &RawDocument, key: &str) -> Option<i64> {
    match document.get(key).ok()?? {
        RawBsonRef::Int32(number) => Some(i64::from(number)),
        RawBsonRef::Int64(number) => Some(number),
        RawBsonRef::Double(number) if number.is_finite() => Some(number as i64),
        _ => None,
    }
}

/// A count or a size; a negative number is invalid and therefore absent.
pub(crate) fn count(document: &RawDocument, key: &str) -> Option<u64> {
    u64::try_from(integer(document, key)?).ok()
}

/// A number of seconds.
pub(crate) fn seconds(document: &RawDocument, key: &str) -> Option<f64> {
    match document.get(key).ok()?? {
        RawBsonRef::Double(number) => Some(number),
        _ => integer(document, key).map(|number| number as f64),
    }
}

pub(crate) fn text(document: &RawDocument, key: &str) -> Option<String> {
    document.get_str(key).ok().map(str::to_owned)
}

/// A flag; a missing flag, or 0, is false.
pub(crate) fn flag(document: &RawDocument, key: &str) -> bool {
    match document.get(key) {
        Ok(Some(RawBsonRef::Boolean(flag))) => flag,
        _ => integer(document, key).is_some_and(|number| number != 0),
    }
}

/// An embedded document.
pub(crate) fn document<'a>(document: &'a RawDocument, key: &str) -> Option<&'a RawDocument> {
    document.get_document(key).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn numbers_of_any_type_are_read_exactly_or_not_at_all() {
        let document = rawdoc! {"a": 5, "b": 6_i64, "c": 7.0, "d": -1, "e": "8", "f": f64::NAN};
        let counts = ["a", "b", "c", "d", "e", "f", "g"].map(|key| count(&document, key));
        assert_eq!(counts, [Some(5), Some(6), Some(7), None, None, None, None]);
        assert_eq!((seconds(&document, "c"), seconds(&document, "a")), (Some(7.0), Some(5.0)));
    }

    #[test]
    fn a_flag_may_be_a_boolean_or_a_number() {
        let document = rawdoc! {"a": true, "b": 1.0, "c": false, "d": 0};
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|key| flag(&document, key)),
            [true, true, false, false, false]
        );
    }
}
