//! Remembers which buckets are full, so that what comes after them does not knock there first.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::layout::{LEVELS, Layout};
use crate::reading::Reading;

/// Buckets remembered. Beyond, all are forgotten: that costs a second look at each, no more.
const BUCKETS_MAX: usize = 50_000;

/// For each full bucket the time of its last reading. Full buckets never change, so this never becomes wrong.
#[derive(Debug, Default)]
pub(super) struct Full {
    last_ms: Mutex<HashMap<String, i64>>,
}

impl Full {
    /// A bucket was seen to be full.
    pub(super) fn remember(&self, id: &str, last_ms: i64) {
        let mut known = self.last_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= BUCKETS_MAX {
            known.clear();
        }
        known.insert(id.to_owned(), last_ms);
    }

    /// The first level whose bucket is not known to be full, or is but may know this reading.
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
    fn only_what_comes_after_a_full_bucket_passes_it() {
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
    fn what_is_remembered_is_bounded() {
        let full = Full::default();
        (0..=BUCKETS_MAX).for_each(|n| full.remember(&n.to_string(), 0));
        assert_eq!(full.last_ms.lock().unwrap().len(), 1);
    }
}
