//! Reads the clocks; no other module does.
//!
//! Durations use the monotonic clock; wall time only labels moments.

use std::ops::{Add, Sub};

use rustix::time::{ClockId, clock_gettime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment on the monotonic clock, in nanoseconds since an arbitrary origin (the machine's boot).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// One second, in nanoseconds.
pub const SECOND_NS: u64 = 1_000_000_000;
/// One millisecond, in nanoseconds.
pub const MILLISECOND_NS: u64 = 1_000_000;

impl Instant {
    /// The moment `ns` nanoseconds after the clock's origin.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to this moment, zero if `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Instant {
    type Output = Self;

    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Sub<u64> for Instant {
    type Output = Self;

    fn sub(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// Reads the monotonic clock.
pub fn now() -> Instant {
    Instant(nanoseconds(ClockId::Monotonic))
}

/// CPU time that the calling thread has used so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// CPU time that this process has used so far, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// Wall time in milliseconds since 1970-01-01 UTC. It names moments and is never subtracted.
pub fn wall_ms() -> u64 {
    nanoseconds(ClockId::Realtime) / MILLISECOND_NS
}

/// The monotonic moment of a wall time in milliseconds since 1970, by the clocks' current offset, which changes if the wall
/// clock is set.
pub fn at_wall(wall_ms: u64) -> Instant {
    let (now, wall_ns) = (now(), nanoseconds(ClockId::Realtime));
    let at_ns = wall_ms.saturating_mul(MILLISECOND_NS);
    if at_ns >= wall_ns { now + (at_ns - wall_ns) } else { now - (wall_ns - at_ns) }
}

/// The wall time of a monotonic moment, in milliseconds since 1970, by the clocks' current offset, rounded to the nearest.
pub fn wall_of(at: Instant) -> u64 {
    let (now, wall_ns) = (now(), nanoseconds(ClockId::Realtime));
    let at_ns = if at >= now { wall_ns + at.since(now) } else { wall_ns.saturating_sub(now.since(at)) };
    (at_ns + MILLISECOND_NS / 2) / MILLISECOND_NS
}

fn nanoseconds(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    at.tv_sec.unsigned_abs() * SECOND_NS + at.tv_nsec.unsigned_abs()
}

/// A wall time in milliseconds as RFC 3339 text in UTC, to the second: `2026-11-21T03:00:00Z`.
pub fn utc(wall_ms: u64) -> String {
    let seconds = i64::try_from(wall_ms / 1000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{seconds} s after 1970"))
}

/// The wall time of an RFC 3339 text, in milliseconds since 1970; nothing if the text is invalid or lies before 1970.
pub fn read_utc(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos() / i128::from(MILLISECOND_NS)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_backwards() {
        let moments: Vec<_> = (0..1000).map(|_| now()).collect();
        assert!(moments.is_sorted());
    }

    #[test]
    fn a_wall_time_is_written_in_utc() {
        assert_eq!(utc(1_774_197_419_960), "2026-03-22T16:36:59Z");
    }

    #[test]
    fn a_wall_time_is_read_in_any_time_zone() {
        for (text, expected) in [
            ("2026-03-22T16:36:59Z", Some(1_774_197_419_000)),
            ("2026-03-22T17:36:59.96+01:00", Some(1_774_197_419_960)),
            ("2026-03-22T16:36:59", None),
            ("1969-12-31T23:59:59Z", None),
            ("soon", None),
        ] {
            assert_eq!(read_utc(text), expected, "{text}");
        }
    }

    #[test]
    fn both_clocks_name_one_moment() {
        let at_ms = wall_ms() + 5_000;
        let at = at_wall(at_ms);
        assert!(at.since(now()) > 4 * SECOND_NS && at.since(now()) <= 5 * SECOND_NS);
        assert!(wall_of(at).abs_diff(at_ms) <= 1, "{} for {at_ms}", wall_of(at));
        assert!(at_wall(at_ms - 60_000) < now(), "a past wall time lies before now");
    }

    #[test]
    fn an_earlier_moment_is_zero_nanoseconds_later() {
        assert_eq!(Instant::from_ns(5).since(Instant::from_ns(9)), 0);
    }
}
