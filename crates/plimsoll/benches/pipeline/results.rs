//! Prints and writes the results as they arrive.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Failure;
use crate::arguments::Arguments;
use crate::row::Measured;
use crate::show;
use crate::steady::Steady;
use crate::testbed::Testbed;

/// Texts that the table of all rows contains: the rounds that reached a goal, memory at begin and end, the
/// quality of int8, the slowest events, published figures, and default exactly-once.
const TOLD: [&str; 7] = [
    "of 1 rounds",
    "in the first tenth",
    "top-1 agreement",
    "sink p99.9",
    "delivery p99.9",
    "955000 events/s of StreamKernel",
    "Kafka → Kafka, settings by default",
];

/// The results so far.
pub(crate) struct Results {
    /// The directory, if any.
    out: Option<PathBuf>,
    is_test: bool,
    text: String,
    json: Value,
}

impl Results {
    /// Starts without results; refuses a directory that has results.
    pub(crate) fn open(testbed: &Testbed, arguments: &Arguments) -> Result<Self, Failure> {
        if let Some(out) = &arguments.out {
            fs::create_dir_all(out)?;
            if out.join("results.json").exists() {
                return Err(format!("{} holds results already: name another directory", out.display()).into());
            }
        }
        let rounds = arguments.plan.rounds;
        let facts = testbed.facts().into_iter().map(|(what, value)| (what.to_owned(), Value::String(value)));
        let json = json!({
            "facts": facts.collect::<serde_json::Map<_, _>>(), "machine": testbed.machine, "rounds": rounds,
            "rows": [], "left_out": [],
        });
        let mut results =
            Self { out: arguments.out.clone(), is_test: arguments.is_test, text: String::new(), json };
        results.say(&show::head(testbed, rounds))?;
        Ok(results)
    }

    /// The directory for files, if one is given.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    pub(crate) fn add_row(&mut self, name: &str, measured: Measured) -> Result<(), Failure> {
        self.push("rows", measured.json(name));
        self.say(&show::row(&measured))
    }

    /// Notes a row that is left out because its peer is not installed.
    pub(crate) fn leave_out(&mut self, name: &str) -> Result<(), Failure> {
        self.push("left_out", json!(name));
        self.say(&format!("\n{name}: left out, its peer is not installed (--install)\n"))
    }

    pub(crate) fn add_steady(&mut self, steady: Steady) -> Result<(), Failure> {
        self.json["steady"] = steady.json();
        self.say(&show::steady(&steady))
    }

    /// Checks at the end of a test that the table has all its parts.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        if self.is_test {
            if let Some(missing) = TOLD.into_iter().find(|words| !self.text.contains(words)) {
                return Err(format!("the table lacks {missing:?}").into());
            }
            println!("every row runs; a test measures nothing");
        }
        Ok(())
    }

    fn push(&mut self, list: &str, value: Value) {
        if let Some(list) = self.json[list].as_array_mut() {
            list.push(value);
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if !self.is_test {
            print!("{text}");
        }
        self.text.push_str(text);
        let Some(out) = &self.out else { return Ok(()) };
        fs::write(out.join("table.txt"), &self.text)?;
        fs::write(out.join("results.json"), format!("{:#}\n", self.json))?;
        Ok(())
    }
}
