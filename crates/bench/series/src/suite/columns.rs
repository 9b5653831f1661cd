//! Defines the columns of a suite's table and parses their texts.

use plimsoll_measure::duration::Span;

use super::typed::{Existing, Row};

/// The names of all columns, in the order in which they are documented.
pub const COLUMNS: [&str; 21] = [
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
    "broker",
    "fill",
    "partitions",
    "existing",
    "timeout",
    "beside",
    "beside_of",
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
            "broker" => self.broker = own(),
            "fill" => self.fill = Some(text.parse()?),
            "partitions" => self.partitions = Some(count(text)?),
            "existing" => self.existing = Some(existing(text)?),
            "timeout" => self.timeout = Some(text.parse()?),
            "beside" => self.beside = Some(whole(text)?),
            "beside_of" => self.beside_of = own(),
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
            broker: either(&self.broker, &defaults.broker),
            fill: self.fill.or(defaults.fill),
            partitions: self.partitions.or(defaults.partitions),
            existing: self.existing.or(defaults.existing),
            timeout: self.timeout.or(defaults.timeout),
            beside: self.beside,
            beside_of: either(&self.beside_of, &defaults.beside_of),
        }
    }

    /// What it says beside its name and what it runs, `column=value` each, without passwords.
    pub fn settings(&self) -> Vec<String> {
        let said = |column: &str, value: Option<String>| value.map(|value| format!("{column}={value}"));
        let shown = |span: Option<Span>| span.map(|span| span.to_string());
        let number = |count: Option<u32>| count.map(|count| count.to_string());
        let server = self.server.as_deref().map(plimsoll_scenario::secret::without_password);
        let columns = [
            said("server", server),
            said("cache", self.cache.map(|cache| cache.to_string())),
            said("broker", self.broker.clone()),
            said("fill", self.fill.map(|fill| fill.to_string())),
            said("partitions", number(self.partitions)),
            said("duration", shown(self.duration)),
            said("in_flight", number(self.in_flight)),
            said("threads", number(self.threads)),
            said("executor", self.executor.clone()),
            said("client_cpus", self.client_cpus.clone()),
            said("server_cpus", self.server_cpus.clone()),
        ];
        let overrides = self.overrides.iter().map(|it| plimsoll_scenario::secret::shown(it));
        overrides.chain(columns.into_iter().flatten()).collect()
    }
}

/// Overrides of one value; empty ones, as behind a last separator, are nothing.
fn split(text: &str) -> Vec<String> {
    text.split(BETWEEN).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn count(text: &str) -> anyhow::Result<u32> {
    whole(text)
}

fn whole<T: std::str::FromStr>(text: &str) -> anyhow::Result<T> {
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
                "in_flight" | "repetitions" | "threads" | "partitions" | "beside" => "3",
                "fill" => "5 of 64B",
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
            ("fill", "much", "write 2_000_000 of 64B"),
            ("beside", "fast", "is no whole number"),
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
