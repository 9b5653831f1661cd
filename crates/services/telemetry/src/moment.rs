//! A moment as clients write it.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How a moment is written, for messages.
pub const FORM: &str = "must be RFC 3339 (\"2026-01-31T12:00:00Z\") or whole milliseconds since 1970";

/// Milliseconds since 1970 of a moment in RFC 3339.
///
/// # Errors
/// [`FORM`].
pub fn read(text: &str) -> Result<i64, String> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| FORM.to_owned())?;
    i64::try_from(moment.unix_timestamp_nanos().div_euclid(1_000_000)).map_err(|_| FORM.to_owned())
}

/// Milliseconds since 1970 of a moment in a query: RFC 3339 or the milliseconds themselves.
///
/// # Errors
/// [`FORM`].
pub fn read_either(text: &str) -> Result<i64, String> {
    text.parse().map_or_else(|_| read(text), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_rfc_3339_or_milliseconds() {
        assert_eq!(read_either("1790000000000"), Ok(1_790_000_000_000));
        assert_eq!(read_either("2026-09-21T14:13:20Z"), Ok(1_790_000_000_000));
        assert_eq!(read("2026-09-21T16:13:20.0079+02:00"), Ok(1_790_000_000_007));
        for text in ["", "now", "2026-09-21", "1.5", "{\"$gt\":0}"] {
            assert_eq!(read_either(text), Err(FORM.to_owned()), "{text}");
        }
    }
}
