//! Remembers when each sensor was heard of last, so that the latest reading is looked for from there on.
//!
//! It is a hint: a reading of that time was acknowledged, so the latest is not earlier, unless the database lost what it had
//! acknowledged (a primary that answered for itself alone and was rolled back) or somebody deleted it. Then nothing is found
//! from there on, the hint is forgotten, and the latest is looked for without it. There is no row in the database that every
//! reading of a sensor would have to change.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Sensors remembered. Beyond, all are forgotten; looking then starts at the sensor's first reading.
const SENSORS_MAX: usize = 200_000;

#[derive(Debug, Default)]
pub(crate) struct Newest {
    at_ms: Mutex<HashMap<String, i64>>,
}

impl Newest {
    /// Readings of these sensors and times are stored.
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

    /// Nothing is stored from that moment on. What was noted meanwhile stays.
    pub(crate) fn forget(&self, sensor: &str, at_ms: i64) {
        let mut known = self.at_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(sensor) == Some(&at_ms) {
            known.remove(sensor);
        }
    }

    /// The time of a reading that was acknowledged, later than all others that were noted.
    pub(crate) fn of(&self, sensor: &str) -> Option<i64> {
        self.at_ms.lock().unwrap_or_else(PoisonError::into_inner).get(sensor).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reading_does_not_turn_it_back_and_it_is_bounded() {
        let newest = Newest::default();
        newest.note([("a", 5), ("b", 1), ("a", 3)].into_iter());
        assert_eq!((newest.of("a"), newest.of("b"), newest.of("c")), (Some(5), Some(1), None));
        let names: Vec<String> = (0..SENSORS_MAX).map(|n| n.to_string()).collect();
        newest.note(names.iter().map(|name| (name.as_str(), 0)));
        assert!(newest.at_ms.lock().unwrap().len() <= SENSORS_MAX);
    }

    #[test]
    fn only_the_hint_that_was_wrong_is_forgotten() {
        let newest = Newest::default();
        newest.note([("a", 5), ("b", 5)].into_iter());
        newest.note([("b", 6)].into_iter());
        newest.forget("a", 5);
        newest.forget("b", 5);
        assert_eq!((newest.of("a"), newest.of("b")), (None, Some(6)));
    }
}
