//! Parses timestamps of requests.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The accepted forms, for messages.
pub const FORM: &str = "must be RFC 3339 (\"2026-01-31T12:00:00Z\") or whole milliseconds since 1970";

/// Parses RFC 3339 into milliseconds since 1970.
///
/// # Errors
/// [`FORM`].
pub fn parse(text: &str) -> Result<i64, String> {
    let timestamp = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| FORM.to_owned())?;
    i64::try_from(timestamp.unix_timestamp_nanos().div_euclid(1_000_000)).map_err(|_| FORM.to_owned())
}

/// Parses RFC 3339, or a number of milliseconds since 1970.
///
/// # Errors
/// [`FORM`].
pub fn parse_either(text: &str) -> Result<i64, String> {
    text.parse().map_or_else(|_| parse(text), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_rfc_3339_or_milliseconds() {
        assert_eq!(parse_either("1790000000000"), Ok(1_790_000_000_000));
        assert_eq!(parse_either("2026-09-21T14:13:20Z"), Ok(1_790_000_000_000));
        assert_eq!(parse("2026-09-21T16:13:20.0079+02:00"), Ok(1_790_000_000_007));
        for text in ["", "now", "2026-09-21", "1.5", "{\"$gt\":0}"] {
            assert_eq!(parse_either(text), Err(FORM.to_owned()), "{text}");
        }
    }
}
