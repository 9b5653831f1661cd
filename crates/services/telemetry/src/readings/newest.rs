//! Caches the latest known time of each sensor, as a lower bound for the query of its latest reading.
//!
//! The time is only a hint. The database may lose an acknowledged reading (a rolled-back primary with `w: 1`), or a user may
//! delete it. Then the query finds no reading, the hint is dropped, and the query runs without it. The hint is not in the
//! database, where it would change with every reading.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The largest number of cached sensors. A full cache is cleared; then queries have no lower bound until it
/// fills again.
const SENSORS_MAX: usize = 200_000;

#[derive(Debug, Default)]
pub(crate) struct Newest {
    at_ms: Mutex<HashMap<String, i64>>,
}

impl Newest {
    /// Records stored readings by sensor and time.
    pub(crate) fn note<'r>(&self, stored: impl Iterator<Item = (&'r str, i64)>) {
        let mut known = self.at_ms.lock().unwrap_or_else(PoisonError::into_inner);
        for (sensor, at_ms) in stored {
            match known.get_mut(sensor) {
                Some(newest_ms) => *newest_ms = at_ms.max(*newest_ms),
                None => {
                    if known.len() >= SENSORS_MAX {
                        known.clear();
                    }
                    known.insert(sensor.to_owned(), at_ms);
                }
            }
        }
    }

    /// Drops a hint whose query found no reading. A newer hint stays.
    pub(crate) fn forget(&self, sensor: &str, at_ms: i64) {
        let mut known = self.at_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(sensor) == Some(&at_ms) {
            known.remove(sensor);
        }
    }

    /// The latest recorded time.
    pub(crate) fn of(&self, sensor: &str) -> Option<i64> {
        self.at_ms.lock().unwrap_or_else(PoisonError::into_inner).get(sensor).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_readings_keep_the_hint_and_the_cache_is_bounded() {
        let newest = Newest::default();
        newest.note([("a", 5), ("b", 1), ("a", 3)].into_iter());
        assert_eq!((newest.of("a"), newest.of("b"), newest.of("c")), (Some(5), Some(1), None));
        let names: Vec<String> = (0..SENSORS_MAX).map(|n| n.to_string()).collect();
        newest.note(names.iter().map(|name| (name.as_str(), 0)));
        assert!(newest.at_ms.lock().unwrap().len() <= SENSORS_MAX);
    }

    #[test]
    fn only_the_wrong_hint_is_dropped() {
        let newest = Newest::default();
        newest.note([("a", 5), ("b", 5)].into_iter());
        newest.note([("b", 6)].into_iter());
        newest.forget("a", 5);
        newest.forget("b", 5);
        assert_eq!((newest.of("a"), newest.of("b")), (None, Some(6)));
    }
}
