//! Parses the description of a side: `server=…`, `set path=value`, `binary=…`.

use std::path::PathBuf;

use anyhow::{bail, ensure};

use plimsoll_run::options::LoadOptions;
use plimsoll_scenario::secret::{shown, without_password};

/// The scenario's keys of the server or the service.
const SERVER: [&str; 4] = ["server", "servers", "cache", "http"];

/// A side of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Its server, unless both sides share one.
    pub server: Option<String>,
    /// Replaced values of the scenario, as `--set` takes them.
    pub overrides: Vec<String>,
    /// Its program, unless it is this one.
    pub binary: Option<PathBuf>,
}

impl Side {
    /// Parses the values of `--a` or `--b`.
    ///
    /// # Errors
    /// When a value is invalid or repeated. The error names the first.
    pub fn read(flag: &str, words: &[String]) -> anyhow::Result<Self> {
        let mut side = Self::default();
        for word in words {
            let word = word.trim();
            if let Some(assignment) = word.strip_prefix("set ") {
                side.overrides.push(assignment.trim().to_owned());
            } else if let Some(server) = word.strip_prefix("server=") {
                ensure!(
                    side.server.replace(server.to_owned()).is_none(),
                    "{flag}: two servers are given; give one"
                );
            } else if let Some(binary) = word.strip_prefix("binary=") {
                let binary = PathBuf::from(binary);
                ensure!(binary.is_file(), "{flag} {word}: this file does not exist");
                ensure!(side.binary.replace(binary).is_none(), "{flag}: two binaries are given; give one");
            } else {
                bail!(
                    "{flag} {:?}: write server=URI, set PATH=VALUE or binary=FILE, for example {flag} 'set client=driver'",
                    shown(word)
                );
            }
        }
        Ok(side)
    }

    /// Its description.
    pub fn name(&self) -> String {
        let server = self.server.as_ref().map(|server| format!("server={}", without_password(server)));
        let binary = self.binary.as_ref().map(|binary| format!("binary={}", binary.display()));
        let overrides = self.overrides.iter().map(|it| shown(it));
        let parts: Vec<String> = server.into_iter().chain(overrides).chain(binary).collect();
        if parts.is_empty() { "as the scenario says".to_owned() } else { parts.join(", ") }
    }

    /// The options of both sides, completed by those of this side.
    pub fn with(&self, both: &LoadOptions) -> LoadOptions {
        let mut options = both.clone();
        if let Some(server) = &self.server {
            (options.server, options.hosts) = (Some(server.clone()), Vec::new());
        }
        options.overrides.extend(self.overrides.iter().cloned());
        options
    }

    /// The keys in which runs of this side may differ from those of the other.
    pub fn varied(&self) -> Vec<String> {
        let paths =
            self.overrides.iter().filter_map(|it| it.split('=').next()).map(|path| path.trim().to_owned());
        let mut varied: Vec<String> = paths.collect();
        let is_server = |path: &String| SERVER.contains(&path.split('.').next().unwrap_or_default());
        if self.server.is_some() || varied.iter().any(is_server) {
            varied.push("server".to_owned());
        }
        if self.binary.is_some() {
            varied.extend(["environment.plimsoll", "environment.optimised"].map(str::to_owned));
        }
        varied
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A side from its description.
    pub fn side(words: &[&str]) -> anyhow::Result<Side> {
        Side::read("--b", &words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_description_becomes_a_side() {
        let it = side(&[
            "server=mongodb://u:secret@h:1/?x=1",
            "set client=driver",
            "set phases.0.stop.duration=5s",
        ])
        .unwrap();
        assert_eq!(it.name(), "server=mongodb://…@h:1/?x=1, client=driver, phases.0.stop.duration=5s");
        assert_eq!(it.varied(), ["client", "phases.0.stop.duration", "server"]);
        let secret =
            side(&["set http.auth={bearer: {token: swordfish}}", "set http.headers.a=swordfish"]).unwrap();
        assert_eq!(secret.name(), "http.auth=…, http.headers.a=…");
        assert_eq!(side(&[]).unwrap().name(), "as the scenario says");
        assert_eq!(side(&["set cache=1GB"]).unwrap().varied(), ["cache", "server"]);
        assert_eq!(side(&["set http.protocol=http2"]).unwrap().varied(), ["http.protocol", "server"]);
        let design = "service.telemetry.settings.readings.design";
        assert_eq!(side(&[&format!("set {design}=bucket")]).unwrap().varied(), [design]);
    }

    #[test]
    fn an_invalid_description_is_refused_with_an_example() {
        for (words, part) in [
            (&["client=driver"][..], "set PATH=VALUE"),
            (&["server=a", "server=b"], "two servers"),
            (&["binary=/nowhere/plimsoll"], "this file does not exist"),
        ] {
            let message = side(words).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
