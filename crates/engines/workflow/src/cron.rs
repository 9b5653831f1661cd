//! Finds the next moment of a schedule: minute, hour, day of month, month and weekday, in UTC.

use time::{Date, Duration, OffsetDateTime, Time};

/// Days that a search looks ahead at most: the 29th of February comes at least every eight years.
const DAYS_MAX: i64 = 366 * 8 + 1;

/// The fields in order, with their least and greatest numbers.
const FIELDS: [(&str, u32, u32); 5] =
    [("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7)];

/// A schedule: the allowed numbers of each field as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether both the day and the weekday are limited: a match of one suffices then, as in cron.
    either_day: bool,
}

impl Cron {
    /// Reads a schedule such as `*/5 8-18 * * 1-5`.
    ///
    /// # Errors
    ///
    /// The field that is wrong, and its remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = words[..] else {
            return Err(format!(
                "`{text}` has {} fields: write minute, hour, day, month and weekday, such as `0 6 * * 1-5`",
                words.len()
            ));
        };
        let weekdays = field(weekday, 4)?;
        Ok(Self {
            minutes: field(minute, 0)?,
            hours: field(hour, 1)?,
            days: field(day, 2)?,
            months: field(month, 3)?,
            // Sunday is 0 and 7.
            weekdays: weekdays | (weekdays >> 7),
            either_day: day != "*" && weekday != "*",
        })
    }

    /// The first moment after `now_ms`, in milliseconds since 1970. `None` if the schedule has none, such as the 30th of February.
    pub fn next(&self, now_ms: u64) -> Option<u64> {
        let now = OffsetDateTime::from_unix_timestamp(i64::try_from(now_ms / 60_000).ok()? * 60).ok()?;
        let from = now.checked_add(Duration::MINUTE)?;
        let first = self.in_day(from.date(), u32::from(from.hour()) * 60 + u32::from(from.minute()));
        let later =
            || (1..=DAYS_MAX).find_map(|days| self.in_day(from.date().checked_add(Duration::days(days))?, 0));
        let at = first.or_else(later)?;
        u64::try_from(at.unix_timestamp()).ok().map(|seconds| seconds * 1000)
    }

    /// The first moment of a day at or after a minute of the day.
    fn in_day(&self, date: Date, from: u32) -> Option<OffsetDateTime> {
        if !self.allows(date) {
            return None;
        }
        let minute = (from..24 * 60).find(|at| has(self.hours, at / 60) && has(self.minutes, at % 60))?;
        let time =
            Time::from_hms(u8::try_from(minute / 60).ok()?, u8::try_from(minute % 60).ok()?, 0).ok()?;
        Some(date.with_time(time).assume_utc())
    }

    fn allows(&self, date: Date) -> bool {
        let day = has(self.days, u32::from(date.day()));
        let weekday = has(self.weekdays, u32::from(date.weekday().number_days_from_sunday()));
        has(self.months, u32::from(u8::from(date.month())))
            && if self.either_day { day || weekday } else { day && weekday }
    }
}

const fn has(bits: u64, number: u32) -> bool {
    bits >> number & 1 == 1
}

/// The allowed numbers of a field: `*`, `5`, `1-5`, `*/10` or several with commas.
fn field(text: &str, index: usize) -> Result<u64, String> {
    text.split(',').try_fold(0, |bits, part| Ok(bits | range(part, index)?))
}

fn range(part: &str, index: usize) -> Result<u64, String> {
    let (name, least, most) = FIELDS[index];
    let wrong =
        || format!("`{part}` is no {name}: write *, a number from {least} to {most}, a range or */step");
    let number =
        |text: &str| text.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(wrong);
    let (numbers, step) = part.split_once('/').map_or((part, None), |(numbers, step)| (numbers, Some(step)));
    let (from, to) = match numbers.split_once('-') {
        _ if numbers == "*" => (least, most),
        Some((from, to)) => (number(from)?, number(to)?),
        None => number(numbers).map(|from| (from, if step.is_some() { most } else { from }))?,
    };
    let step = step.map_or(Some(1), |step| step.parse().ok().filter(|step| *step > 0)).ok_or_else(wrong)?;
    if from > to {
        return Err(wrong());
    }
    Ok((from..=to).step_by(step).fold(0, |bits, number| bits | 1 << number))
}

#[cfg(test)]
mod tests {
    use time::format_description::well_known::Rfc3339;

    use super::*;

    #[track_caller]
    fn check(cron: &str, now: &str, next: Option<&str>) {
        let now = OffsetDateTime::parse(now, &Rfc3339).unwrap().unix_timestamp() as u64 * 1000;
        let given = Cron::parse(cron).unwrap().next(now);
        let given = given.map(|ms| {
            OffsetDateTime::from_unix_timestamp(ms as i64 / 1000).unwrap().format(&Rfc3339).unwrap()
        });
        assert_eq!(given.as_deref(), next, "{cron}");
    }

    #[test]
    fn the_next_moment_follows_the_schedule() {
        check("* * * * *", "2026-11-26T14:00:30Z", Some("2026-11-26T14:01:00Z"));
        check("*/15 8-18 * * 1-5", "2026-11-27T18:50:00Z", Some("2026-11-30T08:00:00Z"));
        check("0 0 29 2 *", "2026-11-26T14:00:00Z", Some("2028-02-29T00:00:00Z"));
        check("0 6 1 * 0", "2026-11-26T14:00:00Z", Some("2026-11-29T06:00:00Z"));
        check("30 23 31 12 *", "2026-12-31T23:30:00Z", Some("2027-12-31T23:30:00Z"));
        check("0 0 30 2 *", "2026-11-26T14:00:00Z", None);
        check("5 4 * * 7", "2026-11-26T14:00:00Z", Some("2026-11-29T04:05:00Z"));
    }

    #[test]
    fn a_wrong_field_is_named() {
        for (cron, words) in [
            ("* * * *", "4 fields"),
            ("60 * * * *", "`60` is no minute"),
            ("* * 0 * *", "`0` is no day"),
            ("* 5-3 * * *", "`5-3` is no hour"),
            ("*/0 * * * *", "`*/0` is no minute"),
        ] {
            assert!(Cron::parse(cron).unwrap_err().contains(words), "{cron}");
        }
    }
}
