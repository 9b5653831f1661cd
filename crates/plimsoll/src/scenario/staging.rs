//! A service that is started for a run, as typed.

use anyhow::Context;
use plimsoll_measure::duration::Span;
use plimsoll_telemetry::settings::Typed as TelemetrySettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A service that is started for a run, on the database that `server` names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Staging {
    /// Telemetry and activity feeds: `plimsoll serve telemetry`.
    Telemetry(Telemetry),
}

/// The telemetry service, as typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// Its settings, as in its own file.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub settings: TelemetrySettings,
    /// What is stored before it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
}

/// What a telemetry service has stored before the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// Sensors, from `sensor-0` on.
    pub sensors: u64,
    /// How far back their readings go, up to the start of the run.
    pub over: Span,
    /// How far apart the readings of a sensor are.
    pub every: Span,
    /// Users, from `user-0` on.
    #[serde(default)]
    pub users: u64,
    /// Others that each user follows.
    #[serde(default)]
    pub follows: u64,
    /// Activities of each user.
    #[serde(default)]
    pub activities: u64,
}

impl Staging {
    /// What comes after `plimsoll serve`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Telemetry(_) => "telemetry",
        }
    }

    /// How its URL begins.
    pub const fn scheme(&self) -> &'static str {
        match self {
            Self::Telemetry(telemetry) if telemetry.settings.tls.is_some() => "https",
            Self::Telemetry(_) => "http",
        }
    }

    /// The settings as the text of the service's own file.
    ///
    /// # Errors
    /// When they cannot be written as text.
    pub fn settings(&self) -> anyhow::Result<String> {
        match self {
            Self::Telemetry(telemetry) => {
                serde_saphyr::to_string(&telemetry.settings).context("write the service's settings")
            }
        }
    }
}
