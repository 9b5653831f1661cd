//! Remembers instances that left a worker's memory, so that late news of them are recognised.

use std::collections::{BTreeMap, VecDeque};

/// Instances to remember at most while no scan is under way. A hint comes at once, or not at all.
const LEFT_MAX: usize = 10_000;

/// Instances that left the memory, with the version that they had then.
#[derive(Debug, Default)]
pub(super) struct Left {
    versions: BTreeMap<String, u64>,
    /// In the order of leaving.
    order: VecDeque<String>,
}

impl Left {
    /// Remembers an instance, and forgets the oldest ones above the limit. A scan under way may still deliver every one that left since its
    /// beginning, so it forgets none.
    pub fn add(&mut self, instance: &str, version: u64, is_scanning: bool) {
        if self.versions.insert(instance.to_owned(), version).is_none() {
            self.order.push_back(instance.to_owned());
        }
        while !is_scanning && self.order.len() > LEFT_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.versions.remove(&oldest);
            }
        }
    }

    /// Whether a version of an instance is older than the one that left.
    pub fn is_older(&self, instance: &str, version: u64) -> bool {
        self.versions.get(instance).is_some_and(|left| version < *left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_instances_are_forgotten_unless_a_scan_is_under_way() {
        let mut left = Left::default();
        left.add("first", 2, true);
        (0..LEFT_MAX).for_each(|number| left.add(&number.to_string(), 1, true));
        assert!(left.is_older("first", 1) && !left.is_older("first", 2) && !left.is_older("other", 1));
        left.add("last", 1, false);
        assert!(!left.is_older("first", 1));
        assert_eq!((left.order.len(), left.versions.len()), (LEFT_MAX, LEFT_MAX));
    }
}
