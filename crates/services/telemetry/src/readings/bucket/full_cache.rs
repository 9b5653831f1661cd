//! Caches full buckets so that writers skip them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::layout::{LEVELS, Layout};
use crate::reading::Reading;

/// The size of the cache. When it is exceeded the cache is cleared, which only costs a second read of each bucket.
const BUCKETS_MAX: usize = 50_000;

/// The time of the last reading of each full bucket. Full buckets get no further readings, so entries stay valid.
#[derive(Debug, Default)]
pub(super) struct Full {
    last_ms: Mutex<HashMap<String, i64>>,
}

impl Full {
    /// Adds a full bucket.
    pub(super) fn remember(&self, id: &str, last_ms: i64) {
        let mut known = self.last_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= BUCKETS_MAX {
            known.clear();
        }
        known.insert(id.to_owned(), last_ms);
    }

    /// The first level whose bucket may have room, or may hold this reading.
    pub(super) fn level_for(&self, layout: &Layout, reading: &Reading) -> u8 {
        let known = self.last_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return 0;
        }
        let passed = |level: &u8| {
            let last_ms = known.get(&layout.id(&reading.sensor, *level, reading.at_ms));
            last_ms.is_some_and(|last_ms| reading.at_ms > *last_ms)
        };
        (0..LEVELS - 1).take_while(passed).fold(0, |_, level| level + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::settings::BucketSettings;
    use super::*;

    #[test]
    fn only_later_readings_skip_a_full_bucket() {
        let layout = Layout::new(&BucketSettings::default());
        let full = Full::default();
        let level = |at_ms| {
            let reading = Reading { sensor: "s".into(), at_ms, event: None, metrics: Vec::new() };
            full.level_for(&layout, &reading)
        };
        assert_eq!(level(500), 0);
        full.remember(&layout.id("s", 0, 0), 500);
        assert_eq!((level(500), level(501), level(3_600_000)), (0, 1, 0));
        full.remember(&layout.id("s", 1, 0), 700);
        assert_eq!((level(501), level(701), level(60_000)), (1, 2, 1));
    }

    #[test]
    fn the_cache_is_bounded() {
        let full = Full::default();
        (0..=BUCKETS_MAX).for_each(|n| full.remember(&n.to_string(), 0));
        assert_eq!(full.last_ms.lock().unwrap().len(), 1);
    }
}
