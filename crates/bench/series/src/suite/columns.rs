//! Defines the columns of a suite's table and parses their texts.

use plimsoll_scenario::secret;
use serde_json::{Map, Value};

use super::typed::Row;

/// The names of all columns, in the order of the documentation.
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
    "reference",
    "reference_of",
];

/// Separates overrides in one value of a table.
const BETWEEN: char = ';';

/// The former names of columns.
const RENAMED: [(&str, &str); 2] = [("beside", "reference"), ("beside_of", "reference_of")];
/// The columns that the results show as settings, after the overrides.
const SETTINGS: [&str; 11] = [
    "server",
    "cache",
    "broker",
    "fill",
    "partitions",
    "duration",
    "in_flight",
    "threads",
    "executor",
    "client_cpus",
    "server_cpus",
];

/// The present name of a column.
pub fn present(column: &str) -> &str {
    RENAMED.iter().find(|(former, _)| *former == column).map_or(column, |(_, present)| present)
}

impl Row {
    /// Sets one column from its text in a table; an empty text leaves the column unset.
    ///
    /// # Errors
    /// When the text is not a value of the column.
    pub fn put(&mut self, column: &str, text: &str) -> anyhow::Result<()> {
        let value = match column {
            _ if text.is_empty() => return Ok(()),
            "overrides" => split(text).into(),
            "in_flight" | "repetitions" | "threads" | "partitions" | "reference" => whole(text)?.into(),
            "existing" if !["refuse", "drop"].contains(&text) => {
                anyhow::bail!("`{text}` is not a rule; write refuse or drop")
            }
            _ => Value::from(text),
        };
        let mut tree = self.tree();
        tree.insert(column.to_owned(), value);
        *self = serde_json::from_value(tree.into())?;
        Ok(())
    }

    /// The columns that have a value.
    pub fn tree(&self) -> Map<String, Value> {
        // A row is a plain structure, so it always has a tree.
        let Ok(Value::Object(mut tree)) = serde_json::to_value(self) else { return Map::new() };
        tree.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|all| !all.is_empty()));
        tree
    }

    /// The row's own values, and those of `defaults` for unset columns. The overrides of the row come after
    /// those of the defaults, and win over them.
    ///
    /// # Errors
    /// Never, because both are rows.
    pub fn or(&self, defaults: &Self) -> anyhow::Result<Self> {
        let has_work = self.scenario.is_some() || self.pipeline.is_some();
        let mut tree = defaults.tree();
        tree.retain(|column, _| match column.as_str() {
            "name" | "reference" => false,
            "scenario" | "pipeline" => !has_work,
            _ => true,
        });
        tree.extend(self.tree());
        tree.insert("overrides".to_owned(), [&defaults.overrides[..], &self.overrides].concat().into());
        Ok(serde_json::from_value(tree.into())?)
    }

    /// Its settings except its name and its work, as `column=value`, without passwords.
    pub fn settings(&self) -> Vec<String> {
        let tree = self.tree();
        let shown = |column: &&str| {
            let value = tree.get(*column)?;
            let text = value.as_str().map_or_else(|| value.to_string(), secret::without_password);
            Some(format!("{column}={text}"))
        };
        let overrides = self.overrides.iter().map(|it| secret::shown(it));
        overrides.chain(SETTINGS.iter().filter_map(shown)).collect()
    }
}

/// The overrides in one value. Empty overrides, as after a last separator, are ignored.
fn split(text: &str) -> Vec<String> {
    text.split(BETWEEN).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn whole(text: &str) -> anyhow::Result<u64> {
    let digits = text.replace('_', "");
    digits.parse().map_err(|_| anyhow::anyhow!("`{text}` is not a whole number; write one such as 4"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::typed::Existing;

    #[test]
    fn a_table_has_the_columns_of_yaml() {
        let filled = COLUMNS.iter().fold(Row::default(), |mut row, column| {
            let text = match *column {
                "duration" | "warm_up" | "timeout" => "5s",
                "in_flight" | "repetitions" | "threads" | "partitions" | "reference" => "3",
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
    fn invalid_values_are_refused_with_the_expected_form() {
        for (column, text, part) in [
            ("repetitions", "many", "is not a whole number"),
            ("in_flight", "-1", "is not a whole number"),
            ("duration", "10", "for example 250ms"),
            ("cache", "big", "for example 512MB"),
            ("existing", "delete", "write refuse or drop"),
            ("fill", "much", "write 2_000_000 of 64B"),
            ("reference", "fast", "is not a whole number"),
        ] {
            let message = Row::default().put(column, text).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_row_extends_its_defaults_and_names_its_own_work() {
        let row = |texts: &[(&str, &str)]| {
            let mut row = Row::default();
            texts.iter().for_each(|(column, text)| row.put(column, text).unwrap());
            row
        };
        let defaults =
            row(&[("scenario", "s"), ("duration", "5s"), ("overrides", "a=1"), ("existing", "drop")]);
        let own = row(&[("name", "n"), ("duration", "9s"), ("overrides", "a=2")]).or(&defaults).unwrap();
        assert_eq!((own.scenario.as_deref(), own.existing), (Some("s"), Some(Existing::Drop)));
        assert_eq!(
            (own.duration.unwrap().to_string(), own.overrides.join(" ")),
            ("9s".into(), "a=1 a=2".into())
        );
        let pipeline = row(&[("pipeline", "p")]).or(&defaults).unwrap();
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
