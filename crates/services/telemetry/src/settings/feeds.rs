//! How feeds are kept, as typed.

use serde::{Deserialize, Serialize};

use super::span::Span;
use crate::feeds::{self, Design};

/// How feeds are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Feeds {
    /// `on_read`, `on_write` or `hybrid`.
    pub design: Design,
    /// The newest activities that a feed shows at most, over all its pages.
    pub depth: u32,
    /// Users that one may follow.
    pub following_max: u32,
    /// Of the design `hybrid`: who has so many followers or more is not pushed to their caches but pulled when they read.
    pub pull_from: u32,
    /// Of the design `hybrid`: the newest activities in the cache of an active user.
    pub cache: u32,
    /// Of the design `hybrid`: a cache that nobody has read for so long goes.
    pub cache_idle: Span,
    /// How far ahead of this machine's clock a timestamp may lie.
    pub future: Span,
}

impl Default for Feeds {
    fn default() -> Self {
        let meant = feeds::Settings::default();
        Self {
            design: meant.design,
            depth: meant.depth,
            following_max: meant.following_max,
            pull_from: meant.pull_from,
            cache: meant.cache_max,
            cache_idle: Span::of(meant.cache_idle),
            future: Span::millis(meant.future_ms_max.unsigned_abs()),
        }
    }
}

impl Feeds {
    pub(super) fn meant(&self) -> feeds::Settings {
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
    fn without_a_word_the_defaults_of_the_feeds_hold() {
        assert_eq!(Feeds::default().meant(), feeds::Settings::default());
    }
}
