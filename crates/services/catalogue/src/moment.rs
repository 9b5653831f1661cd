//! Reads and writes dates.

use bson::DateTime;
use time::format_description::well_known::Rfc3339;
use time::{Date, Month, OffsetDateTime, Time};

/// The longest text that may be a date.
const TEXT_BYTES_MAX: usize = 40;

/// Reads a date: RFC 3339, with a missing part of the time as zero and a missing offset as UTC.
pub(crate) fn parse(text: &str) -> Option<DateTime> {
    if text.len() > TEXT_BYTES_MAX || !begins_with_a_day(text) {
        return None;
    }
    let (day, rest) = text.split_at(10);
    if rest.is_empty() {
        return date(day).map(|day| at(day.with_time(Time::MIDNIGHT).assume_utc()));
    }
    let full = format!("{day}T{}", with_seconds_and_offset(rest.strip_prefix(['T', 't', ' '])?));
    OffsetDateTime::parse(&full, &Rfc3339).ok().map(at)
}

/// Whether a text opens with `dddd-dd-dd`.
fn begins_with_a_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    let expected = |(index, byte): (usize, &u8)| match index {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    bytes.len() >= 10 && bytes[..10].iter().enumerate().all(expected)
}

fn date(day: &str) -> Option<Date> {
    let month = Month::try_from(day[5..7].parse::<u8>().ok()?).ok()?;
    Date::from_calendar_date(day[..4].parse().ok()?, month, day[8..10].parse().ok()?).ok()
}

/// Completes `12:30` to `12:30:00Z`.
fn with_seconds_and_offset(time: &str) -> String {
    let offset_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, offset) = time.split_at(offset_at);
    let seconds = if clock.matches(':').count() == 1 { ":00" } else { "" };
    let offset = match offset.len() {
        0 => "Z".to_owned(),
        5 if !offset.contains(':') && offset.is_char_boundary(3) => {
            format!("{}:{}", &offset[..3], &offset[3..])
        }
        _ => offset.to_owned(),
    };
    format!("{clock}{seconds}{offset}")
}

fn at(moment: OffsetDateTime) -> DateTime {
    // Years have four digits, so the milliseconds fit.
    DateTime::from_millis((moment.unix_timestamp_nanos().div_euclid(1_000_000)) as i64)
}

/// Writes a date as SciCat does: UTC with milliseconds.
pub(crate) fn text(moment: DateTime) -> String {
    let Ok(utc) =
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(moment.timestamp_millis()) * 1_000_000)
    else {
        return moment.timestamp_millis().to_string();
    };
    let (year, month, day) = (utc.year(), u8::from(utc.month()), utc.day());
    let (hour, minute, second, ms) = (utc.hour(), utc.minute(), utc.second(), utc.millisecond());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_in_each_usual_form() {
        for (written, read) in [
            ("2024-01-02", "2024-01-02T00:00:00.000Z"),
            ("2024-01-02T03:04", "2024-01-02T03:04:00.000Z"),
            ("2024-01-02 03:04:05", "2024-01-02T03:04:05.000Z"),
            ("2024-01-02T03:04:05.678Z", "2024-01-02T03:04:05.678Z"),
            ("2024-01-02T03:04:05.678912+02:00", "2024-01-02T01:04:05.678Z"),
            ("2024-01-02T03:04:05-0130", "2024-01-02T04:34:05.000Z"),
            ("1901-01-02T00:00:00Z", "1901-01-02T00:00:00.000Z"),
        ] {
            assert_eq!(parse(written).map(text).as_deref(), Some(read), "{written}");
        }
    }

    #[test]
    fn a_text_that_is_no_date_is_none() {
        for written in [
            "",
            "2024",
            "2024-13-01",
            "2024-02-30",
            "2024-01-01 scan",
            "2024-01-01T",
            "2024-01-01Tx",
            "2024-01-01T25:00",
            "20240101",
            "2024-01-01T00:00:00é",
            "2024-01-01T00:00+é00",
            "p2024-01-01",
        ] {
            assert_eq!(parse(written), None, "{written}");
        }
        assert_eq!(parse(&format!("2024-01-01T00:00:00.{}Z", "1".repeat(1_000))), None);
    }
}
