//! Defines the `service` section: a service that the run starts. The kind of the service reads its own part of the section.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::overrides::put;

/// The JSON pointers of the settings that hold file paths. Every service has the same ones.
const FILES: [&str; 3] = ["/tls/certificate", "/tls/key", "/security/jwt/key_file"];

/// A service that the run starts, as typed: `NAME: {settings: {…}, fill: {…}}`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceSpec {
    /// The service: `plimsoll serve NAME` starts it.
    pub name: String,
    /// Its settings, as in its own settings file.
    pub settings: Map<String, Value>,
    /// The data for its database before the start.
    pub fill: Option<Value>,
}

/// The part of a section below the service's name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Body {
    settings: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fill: Option<Value>,
}

impl<'de> Deserialize<'de> for ServiceSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut services = BTreeMap::<String, Body>::deserialize(deserializer)?;
        match (services.pop_first(), services.is_empty()) {
            (Some((name, Body { settings, fill })), true) => Ok(Self { name, settings, fill }),
            _ => Err(D::Error::custom("name one service, such as `telemetry: {}`")),
        }
    }
}

impl Serialize for ServiceSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let body = Body { settings: self.settings.clone(), fill: self.fill.clone() };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(&self.name, &body)?;
        map.end()
    }
}

/// A placeholder: the binary replaces it with the sections of its registered services.
impl JsonSchema for ServiceSpec {
    fn schema_name() -> Cow<'static, str> {
        "Service".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A service that the run starts, by its name, on the database that `server` names.",
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1
        })
    }
}

impl ServiceSpec {
    /// The name of the database that stores the service's data. The default is the service's name; the settings can override it.
    pub fn database(&self) -> &str {
        let named = self.settings.get("database").and_then(|database| database.get("name"));
        named.and_then(Value::as_str).unwrap_or(&self.name)
    }

    /// The path of the database's name in a scenario.
    pub fn database_path(&self) -> String {
        format!("service.{}.settings.database.name", self.name)
    }

    /// The same service with another database.
    ///
    /// # Errors
    /// When `database` in the settings is not a map.
    pub fn with_database(&self, database: &str) -> anyhow::Result<Self> {
        let mut settings = Value::Object(self.settings.clone());
        put(&mut settings, "database.name", database.into())
            .with_context(|| format!("service.{}.settings", self.name))?;
        let settings = settings.as_object().cloned().unwrap_or_default();
        Ok(Self { settings, ..self.clone() })
    }

    /// The same service with absolute paths: relative ones start at `base`, the directory of the scenario.
    #[must_use]
    pub fn rooted(mut self, base: &Path) -> Self {
        let mut settings = Value::Object(self.settings);
        for pointer in FILES {
            let Some(Value::String(file)) = settings.pointer_mut(pointer) else { continue };
            let path = base.join(&*file);
            *file = std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
        }
        self.settings = settings.as_object().cloned().unwrap_or_default();
        self
    }

    /// The scheme of the service's URL.
    pub fn scheme(&self) -> &'static str {
        if self.settings.get("tls").is_some_and(|tls| !tls.is_null()) { "https" } else { "http" }
    }

    /// The text of the service's settings file.
    ///
    /// # Errors
    /// When the settings cannot be written as YAML.
    pub fn settings_text(&self) -> anyhow::Result<String> {
        serde_saphyr::to_string(&self.settings).context("write the service's settings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ServiceSpec {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn relative_files_start_at_the_scenario() {
        let typed = "telemetry: {settings: {tls: {certificate: tls/cert.pem, key: /etc/key.pem}, \
                     security: {jwt: {algorithm: HS256, key_file: secret}}}}";
        let rooted = spec(typed).rooted(Path::new("/scenarios"));
        let settings = Value::Object(rooted.settings.clone());
        let files = FILES.map(|pointer| settings.pointer(pointer).unwrap().as_str().unwrap());
        assert_eq!(files, ["/scenarios/tls/cert.pem", "/etc/key.pem", "/scenarios/secret"]);
        assert_eq!(rooted.scheme(), "https");
    }

    #[test]
    fn a_section_reads_back_and_its_database_can_be_replaced() {
        let bare = spec("telemetry: {}");
        assert_eq!((bare.database(), bare.scheme()), ("telemetry", "http"));
        let other = bare.with_database("telemetry_7").unwrap();
        assert_eq!(other.database(), "telemetry_7");
        assert_eq!(other.database_path(), "service.telemetry.settings.database.name");
        let filled = spec("telemetry: {settings: {database: {name: a}}, fill: {sensors: 10_000, over: 1h}}");
        assert_eq!(filled.fill.as_ref().unwrap()["sensors"], 10_000);
        assert_eq!(spec(&serde_saphyr::to_string(&filled).unwrap()), filled);
    }

    #[test]
    fn a_section_names_exactly_one_service() {
        for text in ["{}", "{telemetry: {}, catalogue: {}}"] {
            let error = serde_saphyr::from_str::<ServiceSpec>(text).unwrap_err().to_string();
            assert!(error.contains("name one service"), "{error}");
        }
        let error = serde_saphyr::from_str::<ServiceSpec>("telemetry: {filll: {}}").unwrap_err().to_string();
        assert!(error.contains("filll") && error.contains("settings"), "{error}");
    }
}
