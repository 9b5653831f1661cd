//! Defines the `service` section: a service that the run starts.

use std::path::Path;

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
    /// Users who have read their feeds, from `user-0` on: what the design of feeds keeps for those who read is there.
    #[serde(default)]
    pub readers: u64,
}

impl Fill {
    /// Readings and activities in all.
    pub const fn documents(&self) -> u64 {
        let ticks = if self.every.as_ns() == 0 { 0 } else { self.over.as_ns() / self.every.as_ns() };
        let (readings, activities) =
            (self.sensors.saturating_mul(ticks), self.users.saturating_mul(self.activities));
        readings.saturating_add(activities)
    }

    /// Writes that storing them takes at most: an activity may be copied to everyone who follows its user.
    pub const fn writes(&self) -> u64 {
        let copies = self.users.saturating_mul(self.activities).saturating_mul(self.follows);
        self.documents().saturating_add(copies)
    }
}

impl Staging {
    /// The database that it keeps everything in.
    pub fn database(&self) -> &str {
        match self {
            Self::Telemetry(telemetry) => &telemetry.settings.database.name,
        }
    }

    /// Where a scenario says which database that is.
    pub const fn database_path(&self) -> &'static str {
        match self {
            Self::Telemetry(_) => "service.telemetry.settings.database.name",
        }
    }

    /// The same with another database.
    #[must_use]
    pub fn on(mut self, database: &str) -> Self {
        match &mut self {
            Self::Telemetry(telemetry) => database.clone_into(&mut telemetry.settings.database.name),
        }
        self
    }

    /// What it has stored before the load: readings and activities.
    pub fn filled(&self) -> u64 {
        match self {
            Self::Telemetry(telemetry) => telemetry.fill.as_ref().map_or(0, Fill::documents),
        }
    }

    /// The same with every file by its whole path: relative ones start at the scenario, which lies in `base`.
    #[must_use]
    pub fn rooted(mut self, base: &Path) -> Self {
        let Self::Telemetry(Telemetry { settings, .. }) = &mut self;
        let tls = settings.tls.iter_mut().flat_map(|tls| [&mut tls.certificate, &mut tls.key]);
        let jwt = settings.security.iter_mut().filter_map(|security| security.jwt.as_mut());
        for file in tls.chain(jwt.map(|jwt| &mut jwt.key_file)) {
            let path = base.join(&*file);
            *file = std::path::absolute(&path).unwrap_or(path);
        }
        self
    }

    /// Writes that storing it takes at most.
    pub fn writes(&self) -> u64 {
        match self {
            Self::Telemetry(telemetry) => telemetry.fill.as_ref().map_or(0, Fill::writes),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_settings_lie_beside_the_scenario() {
        let typed = "telemetry: {settings: {tls: {certificate: tls/cert.pem, key: /etc/key.pem}, \
                     security: {jwt: {algorithm: HS256, key_file: secret}}}}";
        let staging: Staging = serde_saphyr::from_str(typed).unwrap();
        let Staging::Telemetry(Telemetry { settings, .. }) = staging.rooted(Path::new("/scenarios"));
        let (tls, jwt) = (settings.tls.unwrap(), settings.security.unwrap().jwt.unwrap());
        assert_eq!(tls.certificate, Path::new("/scenarios/tls/cert.pem"));
        assert_eq!(tls.key, Path::new("/etc/key.pem"));
        assert_eq!(jwt.key_file, Path::new("/scenarios/secret"));
    }

    #[test]
    fn what_is_filled_in_is_counted_and_a_database_can_be_another() {
        let typed =
            "telemetry: {fill: {sensors: 20, over: 10m, every: 10s, users: 10, follows: 3, activities: 4}}";
        let staging: Staging = serde_saphyr::from_str(typed).unwrap();
        assert_eq!(staging.filled(), 20 * 60 + 10 * 4);
        assert_eq!(staging.writes(), 20 * 60 + 10 * 4 * (1 + 3));
        assert_eq!(staging.database(), "telemetry");
        assert_eq!(staging.on("telemetry_7").database(), "telemetry_7");
        let bare: Staging = serde_saphyr::from_str("telemetry: {}").unwrap();
        assert_eq!(bare.filled(), 0);
    }
}
