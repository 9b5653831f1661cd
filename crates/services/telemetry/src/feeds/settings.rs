//! How feeds are kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How feeds lie in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// An activity is stored once and looked for by every reader.
    OnRead,
    /// An activity is copied to every follower.
    OnWrite,
    /// An activity is copied into the capped caches of active followers, unless its author has very many.
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

/// How feeds are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How they lie in the database.
    pub design: Design,
    /// The newest activities that a feed shows at most, over all its pages.
    pub depth: u32,
    /// Users that one may follow.
    pub following_max: u32,
    /// Who has so many followers is pulled, not pushed, by the hybrid.
    pub pull_from: u32,
    /// Activities in a cache of the hybrid.
    pub cache_max: u32,
    /// A cache that nobody has read for so long goes.
    pub cache_idle: Duration,
    /// How far ahead of the service's clock a timestamp may lie, in milliseconds.
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

/// A cache with more would come near the server's limit of a document, 16 MiB.
const CACHE_MAX: u32 = 1_000;
/// A feed that is deeper would make following someone too dear.
const DEPTH_MAX: u32 = 10_000;
/// Who follows more would make a reader ask for too much.
const FOLLOWING_MAX: u32 = 10_000;

impl Settings {
    /// What cannot be meant.
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
    fn what_cannot_be_meant_is_refused() {
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
