//! Defines the share of its rate that an open load must reach.

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest window.
const WINDOW_MAX: Span = Span::from_secs(3600);
/// The share of completed operations below which a rate is not reached, regardless of the percentiles.
pub const ACHIEVED_MIN: f64 = 0.99;

/// The share of due operations that must be done, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateFloor {
    /// The share of the operations due that must be done, over 0 and up to 1.
    #[serde(default = "share_default")]
    pub share: f64,
    /// The window in which that share must be done.
    #[serde(rename = "for", default = "window_default")]
    pub window: Span,
}

const fn share_default() -> f64 {
    ACHIEVED_MIN
}

const fn window_default() -> Span {
    Span::from_secs(10)
}

impl RateFloor {
    /// Whether the numbers are within their limits.
    pub fn is_valid(&self) -> bool {
        let window = Span::from_secs(1)..=WINDOW_MAX;
        self.share > 0.0 && self.share <= 1.0 && window.contains(&self.window)
    }
}
