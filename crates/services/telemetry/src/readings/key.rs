//! Encodes the `_id` of stored readings: a string that sorts by sensor, then time, then event or level.
//!
//! A tab separates the parts. Names cannot contain it, and it sorts before all their characters. So the keys of a sensor are
//! neighbours, and one index on `_id` serves uniqueness, ranges and the latest.

use crate::reading::Reading;

/// The character between the parts of a key.
const TAB: char = '\t';
/// The character that sorts right after the tab. It marks the end of a sensor's keys.
const AFTER_TAB: char = '\n';
/// Times are shifted so that those before 1970 sort first; 12 hexadecimal digits hold 4,459 years to each side.
const SHIFT_MS: i64 = 1 << 47;

/// The key of a reading: sensor, time, event.
pub(crate) fn of(reading: &Reading) -> String {
    event(&reading.sensor, reading.at_ms, reading.event.as_deref())
}

/// The key of a reading.
pub(crate) fn event(sensor: &str, at_ms: i64, event: Option<&str>) -> String {
    let mut key = from(sensor, at_ms);
    if let Some(event) = event {
        key.push(TAB);
        key.push_str(event);
    }
    key
}

/// The least key of a sensor from a time on.
pub(crate) fn from(sensor: &str, at_ms: i64) -> String {
    let shifted = at_ms.clamp(-SHIFT_MS, SHIFT_MS - 1) + SHIFT_MS;
    format!("{sensor}{TAB}{shifted:012x}")
}

/// The least upper bound of a sensor's keys.
pub(crate) fn end(sensor: &str) -> String {
    format!("{sensor}{AFTER_TAB}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_sensor_then_time_then_event() {
        let keys = [
            event("a", i64::MIN, None),
            event("a", -1, None),
            event("a", 0, None),
            event("a", 0, Some("x")),
            event("a", 1, None),
            event("a", i64::MAX, Some("\u{10ffff}")),
            end("a"),
            event("a 1", 0, None),
            event("a/", 0, None),
            event("ab", 0, None),
        ];
        assert!(keys.is_sorted_by(|one, other| one < other), "{keys:?}");
    }

    #[test]
    fn a_key_is_short_and_decodes() {
        assert_eq!(event("sensor-7", 1_790_000_000_000, Some("e")), "sensor-7\t81a0c4506c00\te");
    }
}
