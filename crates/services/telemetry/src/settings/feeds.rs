//! Defines the section `feeds`: the storage of feeds.

use plimsoll_service::Span;
use serde::{Deserialize, Serialize};

use crate::feeds::{self, Design};

/// The section `feeds`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Feeds {
    /// `on_read`, `on_write` or `hybrid`.
    pub design: Design,
    /// The maximum number of activities in a feed, over all pages.
    pub depth: u32,
    /// The maximum number of users that one user may follow.
    pub following_max: u32,
    /// `hybrid`: authors with this many followers are pulled on read, not pushed.
    pub pull_from: u32,
    /// `hybrid`: the largest number of activities in a cache.
    pub cache: u32,
    /// `hybrid`: an unread cache expires after this time.
    pub cache_idle: Span,
    /// The latest accepted timestamp, after now.
    pub future: Span,
}

impl Default for Feeds {
    fn default() -> Self {
        let store = feeds::Settings::default();
        Self {
            design: store.design,
            depth: store.depth,
            following_max: store.following_max,
            pull_from: store.pull_from,
            cache: store.cache_max,
            cache_idle: Span::of(store.cache_idle),
            future: Span::millis(store.future_ms_max.unsigned_abs()),
        }
    }
}

impl Feeds {
    pub(super) fn checked(&self) -> feeds::Settings {
        feeds::Settings {
            design: self.design,
            depth: self.depth,
            following_max: self.following_max,
            pull_from: self.pull_from,
            cache_max: self.cache,
            cache_idle: self.cache_idle.duration(),
            future_ms_max: self.future.as_ms(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_feeds() {
        assert_eq!(Feeds::default().checked(), feeds::Settings::default());
    }
}
