//! Renders times as RFC 3339 in UTC, to the millisecond. The width is fixed, so that one time can overwrite another.

/// Characters of `2026-11-21T03:00:00.000Z`.
pub(crate) const TEXT_LEN: usize = 24;
/// Digits of the milliseconds since 1970, from 2001 to 2286.
pub(crate) const MILLIS_LEN: usize = 13;
/// The years that four digits can represent: from 0000-01-01 to 9999-12-31, in milliseconds since 1970.
const RANGE_MS: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;
const DAY_MS: i64 = 86_400_000;

/// Writes a time as text. Clamps it to the years that four digits can represent.
pub(crate) fn write_text(ms: i64, out: &mut [u8; TEXT_LEN]) {
    let ms = ms.clamp(*RANGE_MS.start(), *RANGE_MS.end());
    let (year, month, day) = date(ms.div_euclid(DAY_MS));
    let of_day = ms.rem_euclid(DAY_MS);
    *out = *b"0000-00-00T00:00:00.000Z";
    digits(year, &mut out[0..4]);
    digits(month, &mut out[5..7]);
    digits(day, &mut out[8..10]);
    digits(of_day / 3_600_000, &mut out[11..13]);
    digits(of_day / 60_000 % 60, &mut out[14..16]);
    digits(of_day / 1000 % 60, &mut out[17..19]);
    digits(of_day % 1000, &mut out[20..23]);
}

/// Writes the milliseconds since 1970 as digits.
pub(crate) fn write_millis(ms: i64, out: &mut [u8; MILLIS_LEN]) {
    digits(ms.clamp(1_000_000_000_000, 9_999_999_999_999), out);
}

/// The Gregorian date of a day, counted from 1970-01-01, for years from 0 on. Counts in eras of 400 years that begin in March, so
/// that the leap day ends a year.
fn date(days: i64) -> (i64, i64, i64) {
    // Days since 0000-03-01.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, every five months have 153 days.
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn digits(mut number: i64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(ms: i64) -> String {
        let mut out = [0; TEXT_LEN];
        write_text(ms, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn times_are_written_to_the_millisecond() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_774_197_419_960, "2026-03-22T16:36:59.960Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(text(ms), expected);
        }
        let mut out = [0; MILLIS_LEN];
        write_millis(1_774_197_419_960, &mut out);
        assert_eq!(&out, b"1774197419960");
    }

    proptest! {
        #[test]
        fn every_time_matches_another_implementation(ms in RANGE_MS) {
            let theirs = bson::DateTime::from_millis(ms).try_to_rfc3339_string().unwrap();
            let theirs = bson::DateTime::parse_rfc3339_str(&theirs).unwrap();
            prop_assert_eq!(bson::DateTime::parse_rfc3339_str(text(ms)).unwrap(), theirs);
        }
    }
}
