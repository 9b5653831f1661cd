//! Lists the permissions of callers.

use plimsoll_service::Scope;

/// Send readings.
pub const TELEMETRY_WRITE: Scope = Scope("telemetry:write");
/// Read readings and statistics.
pub const TELEMETRY_READ: Scope = Scope("telemetry:read");
/// Post, follow and unfollow.
pub const ACTIVITY_WRITE: Scope = Scope("activity:write");
/// Read feeds.
pub const ACTIVITY_READ: Scope = Scope("activity:read");

/// All of them.
pub const ALL: &[Scope] = &[TELEMETRY_WRITE, TELEMETRY_READ, ACTIVITY_WRITE, ACTIVITY_READ];
