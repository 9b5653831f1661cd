//! Parses `--start-at`: the time when a load starts.

use anyhow::{Context, bail, ensure};
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;

/// The longest wait for the start of a load, in milliseconds.
const AHEAD_MS_MAX: u64 = 3_600_000;

/// The time when a load starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// In milliseconds since 1970.
    pub wall_ms: u64,
    /// The processes that share the time.
    pub shared_by: SharedBy,
}

/// The processes that share a start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBy {
    /// All processes, on every machine.
    AllProcesses,
    /// Only this process: the time counts from when the option was read.
    ThisProcess,
}

/// Parses RFC 3339, milliseconds since 1970, or a distance from `now_ms` such as `+10s`.
///
/// # Errors
/// When the text has none of these forms, or the time has passed or is more than an hour ahead.
pub fn read(text: &str, now_ms: u64) -> anyhow::Result<Moment> {
    let moment = parse(text, now_ms).with_context(|| {
        format!("--start-at {text}: write a time in UTC such as 2026-11-21T18:30:00Z, milliseconds since 1970, or +10s")
    })?;
    check(moment.wall_ms, now_ms).with_context(|| format!("--start-at {text}"))?;
    Ok(moment)
}

fn parse(text: &str, now_ms: u64) -> anyhow::Result<Moment> {
    let all = |wall_ms| Moment { wall_ms, shared_by: SharedBy::AllProcesses };
    if let Some(length) = text.strip_prefix('+') {
        let span: Span = length.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        return Ok(Moment {
            wall_ms: now_ms.saturating_add(span.as_ns() / 1_000_000),
            shared_by: SharedBy::ThisProcess,
        });
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(all(text.parse().context("a number of milliseconds that is too large")?));
    }
    clock::read_utc(text).map(all).context("not a valid time")
}

fn check(wall_ms: u64, now_ms: u64) -> anyhow::Result<()> {
    let at = clock::utc(wall_ms);
    if wall_ms <= now_ms {
        let ago = seconds(now_ms - wall_ms);
        bail!("{at} was {ago} ago: name a future time, by this machine's clock");
    }
    ensure!(
        wall_ms - now_ms <= AHEAD_MS_MAX,
        "{at} is {} ahead: name one within an hour, by this machine's clock",
        seconds(wall_ms - now_ms)
    );
    Ok(())
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T18:30:00Z
    const NOW_MS: u64 = 1_795_285_800_000;

    #[test]
    fn a_start_time_has_three_forms() {
        for (text, ahead_ms, shared_by) in [
            ("2026-11-21T18:30:10Z", 10_000, SharedBy::AllProcesses),
            ("2026-11-21T19:30:10.5+01:00", 10_500, SharedBy::AllProcesses),
            ("1795285801000", 1_000, SharedBy::AllProcesses),
            ("+10s", 10_000, SharedBy::ThisProcess),
            ("+1h", 3_600_000, SharedBy::ThisProcess),
            ("+1500ms", 1_500, SharedBy::ThisProcess),
        ] {
            assert_eq!(
                read(text, NOW_MS).unwrap(),
                Moment { wall_ms: NOW_MS + ahead_ms, shared_by },
                "{text}"
            );
        }
    }

    #[test]
    fn a_start_time_that_is_past_too_far_ahead_or_malformed_is_refused() {
        for (text, part) in [
            ("2026-11-21T18:29:18Z", "2026-11-21T18:29:18Z was 42.0 s ago: name a future time"),
            ("1795285800000", "was 0.0 s ago"),
            ("1795285800", "1970-01-21T18:41:25Z was"),
            ("2026-11-21T19:30:01Z", "is 3601.0 s ahead: name one within an hour"),
            ("+61m", "ahead"),
            ("+0s", "was 0.0 s ago"),
            ("+soon", "such as 2026-11-21T18:30:00Z"),
            ("18:30", "such as 2026-11-21T18:30:00Z"),
            ("", "such as 2026-11-21T18:30:00Z"),
            ("99999999999999999999999", "too large"),
        ] {
            let message = format!("{:#}", read(text, NOW_MS).unwrap_err());
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
