//! A suite as typed: its tests, and what each row may say.

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use serde::{Deserialize, Serialize};

/// A suite, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// What it is, in a few words; its name if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The question that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// What rows mean where they say nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defaults: Row,
    /// The tests in the order of the cost stack: each is held against the one above it.
    pub tests: Vec<Row>,
}

/// A test, as typed: one value a column. What is left out is as the scenario says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Row {
    /// Its name: letters, digits and `-`, `_`, `.`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The scenario that it runs: a file, which starts at the suite's, or the name of a shipped one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The pipeline that it runs instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// How long the last phase is measured, whatever else would end it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How long the same load is sent before, into a collection of its own that is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Span>,
    /// Values of the scenario that are replaced: `path=value`, as `--set` takes them; in CSV separated by `;`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Operations in flight at most: the writers of a closed load, the connections of any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// How often it is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// Worker threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// How work is spread over threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// The CPUs that the load may use, such as `0-3,6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cpus: Option<String>,
    /// The CPUs that a server that is started may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpus: Option<String>,
    /// Where the load goes: a mongodb:// URI, `mongod`, `embedded` or `embedded:relaxed`. One that is started is started for
    /// each run anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The storage engine's cache of a server that is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Bytes>,
    /// What happens to a collection that is not empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<Existing>,
    /// How long the load may take, its audit included, before it is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// What happens to a collection that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// The test is not begun.
    Refuse,
    /// The collection is dropped first.
    Drop,
}

impl Existing {
    /// Its name, as a suite and a scenario write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Drop => "drop",
        }
    }
}

fn is_default(row: &Row) -> bool {
    *row == Row::default()
}

/// The names of all columns, in the order in which they are documented.
pub const COLUMNS: [&str; 16] = [
    "name",
    "scenario",
    "pipeline",
    "duration",
    "warm_up",
    "overrides",
    "in_flight",
    "repetitions",
    "threads",
    "executor",
    "client_cpus",
    "server_cpus",
    "server",
    "cache",
    "existing",
    "timeout",
];

/// What separates overrides in one value of a table.
const BETWEEN: char = ';';

impl Row {
    /// Puts the text of one column of a table; an empty one says nothing.
    ///
    /// # Errors
    /// What the text should have been.
    pub fn put(&mut self, column: &str, text: &str) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let own = || Some(text.to_owned());
        match column {
            "name" => self.name = own(),
            "scenario" => self.scenario = own(),
            "pipeline" => self.pipeline = own(),
            "duration" => self.duration = Some(text.parse()?),
            "warm_up" => self.warm_up = Some(text.parse()?),
            "overrides" => self.overrides = split(text),
            "in_flight" => self.in_flight = Some(count(text)?),
            "repetitions" => self.repetitions = Some(count(text)?),
            "threads" => self.threads = Some(count(text)?),
            "executor" => self.executor = own(),
            "client_cpus" => self.client_cpus = own(),
            "server_cpus" => self.server_cpus = own(),
            "server" => self.server = own(),
            "cache" => self.cache = Some(text.parse()?),
            "existing" => self.existing = Some(existing(text)?),
            "timeout" => self.timeout = Some(text.parse()?),
            other => anyhow::bail!("there is no column `{other}`"),
        }
        Ok(())
    }

    /// What this row says, and where it says nothing, what `defaults` say. Overrides of the row come after those of the
    /// defaults, so that they win.
    pub fn or(&self, defaults: &Self) -> Self {
        let either = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        let work = self.scenario.is_some() || self.pipeline.is_some();
        let inherited = |other: &Option<String>| if work { None } else { other.clone() };
        Self {
            name: self.name.clone(),
            scenario: self.scenario.clone().or_else(|| inherited(&defaults.scenario)),
            pipeline: self.pipeline.clone().or_else(|| inherited(&defaults.pipeline)),
            duration: self.duration.or(defaults.duration),
            warm_up: self.warm_up.or(defaults.warm_up),
            overrides: [&defaults.overrides[..], &self.overrides].concat(),
            in_flight: self.in_flight.or(defaults.in_flight),
            repetitions: self.repetitions.or(defaults.repetitions),
            threads: self.threads.or(defaults.threads),
            executor: either(&self.executor, &defaults.executor),
            client_cpus: either(&self.client_cpus, &defaults.client_cpus),
            server_cpus: either(&self.server_cpus, &defaults.server_cpus),
            server: either(&self.server, &defaults.server),
            cache: self.cache.or(defaults.cache),
            existing: self.existing.or(defaults.existing),
            timeout: self.timeout.or(defaults.timeout),
        }
    }

    /// What it says beside its name and what it runs, `column=value` each, without passwords.
    pub fn settings(&self) -> Vec<String> {
        let said = |column: &str, value: Option<String>| value.map(|value| format!("{column}={value}"));
        let shown = |span: Option<Span>| span.map(|span| span.to_string());
        let number = |count: Option<u32>| count.map(|count| count.to_string());
        let server = self.server.as_deref().map(crate::secret::without_password);
        let columns = [
            said("server", server),
            said("cache", self.cache.map(|cache| cache.to_string())),
            said("duration", shown(self.duration)),
            said("in_flight", number(self.in_flight)),
            said("threads", number(self.threads)),
            said("executor", self.executor.clone()),
            said("client_cpus", self.client_cpus.clone()),
            said("server_cpus", self.server_cpus.clone()),
        ];
        let overrides = self.overrides.iter().map(|it| crate::secret::shown(it));
        overrides.chain(columns.into_iter().flatten()).collect()
    }
}

/// Overrides of one value; empty ones, as behind a last separator, are nothing.
fn split(text: &str) -> Vec<String> {
    text.split(BETWEEN).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn count(text: &str) -> anyhow::Result<u32> {
    let digits = text.replace('_', "");
    digits.parse().map_err(|_| anyhow::anyhow!("`{text}` is no whole number; write one such as 4"))
}

fn existing(text: &str) -> anyhow::Result<Existing> {
    match text {
        "refuse" => Ok(Existing::Refuse),
        "drop" => Ok(Existing::Drop),
        other => anyhow::bail!("`{other}` is no rule; write refuse or drop"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_columns_that_yaml_has() {
        let filled = COLUMNS.iter().fold(Row::default(), |mut row, column| {
            let text = match *column {
                "duration" | "warm_up" | "timeout" => "5s",
                "in_flight" | "repetitions" | "threads" => "3",
                "cache" => "1GB",
                "existing" => "drop",
                "overrides" => "a=1; b=2;",
                _ => "x",
            };
            row.put(column, text).unwrap();
            row
        });
        let tree = serde_json::to_value(&filled).unwrap();
        let mut keys: Vec<_> = tree.as_object().unwrap().keys().map(String::as_str).collect();
        let mut columns = COLUMNS.to_vec();
        keys.sort_unstable();
        columns.sort_unstable();
        assert_eq!(keys, columns);
        assert_eq!(filled.overrides, ["a=1", "b=2"]);
        assert_eq!(serde_json::from_value::<Row>(tree).unwrap(), filled);
    }

    #[test]
    fn bad_values_say_what_they_should_have_been() {
        for (column, text, part) in [
            ("repetitions", "many", "is no whole number"),
            ("in_flight", "-1", "is no whole number"),
            ("duration", "10", "for example 250ms"),
            ("cache", "big", "for example 512MB"),
            ("existing", "delete", "write refuse or drop"),
        ] {
            let message = Row::default().put(column, text).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_row_says_more_than_its_defaults_and_names_its_own_work() {
        let row = |texts: &[(&str, &str)]| {
            let mut row = Row::default();
            texts.iter().for_each(|(column, text)| row.put(column, text).unwrap());
            row
        };
        let defaults =
            row(&[("scenario", "s"), ("duration", "5s"), ("overrides", "a=1"), ("existing", "drop")]);
        let own = row(&[("name", "n"), ("duration", "9s"), ("overrides", "a=2")]).or(&defaults);
        assert_eq!((own.scenario.as_deref(), own.existing), (Some("s"), Some(Existing::Drop)));
        assert_eq!(
            (own.duration.unwrap().to_string(), own.overrides.join(" ")),
            ("9s".into(), "a=1 a=2".into())
        );
        let pipeline = row(&[("pipeline", "p")]).or(&defaults);
        assert_eq!((pipeline.scenario, pipeline.pipeline.as_deref()), (None, Some("p")));
    }

    #[test]
    fn passwords_are_not_among_the_settings() {
        let mut row = Row::default();
        row.put("server", "mongodb://ann:secret@h:1").unwrap();
        row.put("threads", "2").unwrap();
        assert_eq!(row.settings(), ["server=mongodb://…@h:1", "threads=2"]);
    }
}
