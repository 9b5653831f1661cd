//! Defines the settings of feeds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The design of feeds in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// Stores an activity once; reads query all authors.
    OnRead,
    /// Copies an activity to every follower.
    OnWrite,
    /// Copies an activity into caches of active followers, unless its author has too many followers.
    #[default]
    Hybrid,
}

impl Design {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OnRead, Self::OnWrite, Self::Hybrid];

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnRead => "on_read",
            Self::OnWrite => "on_write",
            Self::Hybrid => "hybrid",
        }
    }
}

/// The settings of feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The design.
    pub design: Design,
    /// The maximum number of activities in a feed, over all pages.
    pub depth: u32,
    /// The maximum number of users that one user may follow.
    pub following_max: u32,
    /// Hybrid: authors with this many followers are pulled.
    pub pull_from: u32,
    /// Hybrid: the largest number of activities in a cache.
    pub cache_max: u32,
    /// Hybrid: an unread cache expires after this time.
    pub cache_idle: Duration,
    /// The latest accepted timestamp, in milliseconds after now.
    pub future_ms_max: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            design: Design::default(),
            depth: 1_000,
            following_max: 2_000,
            pull_from: 1_000,
            cache_max: 100,
            cache_idle: Duration::from_secs(7 * 86_400),
            future_ms_max: 300_000,
        }
    }
}

/// A larger cache could reach the server's limit of 16 MiB a document.
const CACHE_MAX: u32 = 1_000;
/// A deeper feed would make following too expensive.
const DEPTH_MAX: u32 = 10_000;
/// More authors would make a read too expensive.
const FOLLOWING_MAX: u32 = 10_000;

impl Settings {
    /// The reason why the settings are invalid, or `None`.
    pub fn fault(&self) -> Option<String> {
        let within = |name: &str, value: u32, most: u32| {
            (value == 0 || value > most).then(|| format!("{name} is {value}: it must be 1 to {most}"))
        };
        within("depth", self.depth, DEPTH_MAX)
            .or_else(|| within("following_max", self.following_max, FOLLOWING_MAX))
            .or_else(|| within("pull_from", self.pull_from, u32::MAX))
            .or_else(|| within("cache", self.cache_max, CACHE_MAX))
            .or_else(|| {
                let idle = self.cache_idle.as_secs();
                let bad = idle == 0 || i32::try_from(idle).is_err();
                bad.then(|| "cache_idle must be a second to 68 years".into())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused() {
        let check = |change: fn(&mut Settings), part: &str| {
            let mut settings = Settings::default();
            change(&mut settings);
            assert!(settings.fault().is_some_and(|fault| fault.contains(part)), "{part}");
        };
        assert_eq!(Settings::default().fault(), None);
        check(|it| it.depth = 0, "depth is 0");
        check(|it| it.following_max = 10_001, "1 to 10000");
        check(|it| it.cache_max = 1_001, "cache is 1001");
        check(|it| it.cache_idle = Duration::ZERO, "cache_idle");
    }
}
