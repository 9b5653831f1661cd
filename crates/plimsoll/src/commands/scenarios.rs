//! Implements `plimsoll scenarios`: lists the shipped scenarios, pipelines and suites with their questions.

use anyhow::anyhow;
use serde::Deserialize;

use super::derive;
use crate::cli::{ScenariosArgs, ScenariosCommand};
use crate::terminal::{list_width, print};
use plimsoll_report::text::{Width, hanging};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_scenario::{Builtin, builtins, load, pipelines, suites};
use plimsoll_series::suite::read;

/// The question in a pipeline's file. The other keys are not read: they may need features that this program
/// lacks.
#[derive(Debug, Deserialize)]
struct Asks {
    question: String,
}

/// Lists the shipped scenarios, pipelines and suites, or prints one.
///
/// # Errors
/// No item has that name.
pub fn scenarios(args: &ScenariosArgs) -> Outcome<Exit> {
    if let Some(ScenariosCommand::Derive(args)) = &args.command {
        return derive::derive(args);
    }
    if let Some(name) = &args.name {
        if let Some(other) = suites().iter().chain(pipelines()).find(|builtin| builtin.name == name) {
            print(other.text);
            return Ok(Exit::Held);
        }
        load(name, &[], None).deserves(Exit::Usage)?;
        builtins().iter().filter(|builtin| builtin.name == name).for_each(|builtin| print(builtin.text));
        return Ok(Exit::Held);
    }
    show("", &listed()?);
    show("\nPipelines, for plimsoll pipeline run:\n", &listed_pipelines()?);
    show("\nSuites, for plimsoll suite:\n", &listed_suites()?);
    Ok(Exit::Held)
}

type Listed = (&'static str, &'static str, String);

/// The width of a name, in columns.
const NAME: usize = 23;

fn show(title: &str, all: &[Listed]) {
    print(title);
    let width = list_width();
    all.iter().for_each(|(name, _, question)| print(&entry(name, question, width)));
}

/// The question next to its name, or below a long name. Without a width, both are on one line.
fn entry(name: &str, question: &str, width: Width) -> String {
    let is_long = name.len() > NAME && width != Width::ENDLESS;
    let (above, beside) = if is_long { (format!("{name}\n"), "") } else { (String::new(), name) };
    format!("{above}{}\n", hanging(question, &format!("{beside:<NAME$} "), width))
}

/// Name, path and question of each shipped scenario.
fn listed() -> anyhow::Result<Vec<Listed>> {
    let question = |name| anyhow::Ok(load(name, &[], None)?.scenario.question.unwrap_or_default());
    builtins().iter().map(|builtin| Ok((builtin.name, builtin.path, question(builtin.name)?))).collect()
}

/// Name, path and question of each shipped pipeline.
fn listed_pipelines() -> anyhow::Result<Vec<Listed>> {
    let question = |builtin: &Builtin| {
        let asks: Asks =
            serde_saphyr::from_str(builtin.text).map_err(|error| anyhow!("{}: {error}", builtin.path))?;
        anyhow::Ok((builtin.name, builtin.path, asks.question))
    };
    pipelines().iter().map(question).collect()
}

/// Name, path and question of each shipped suite.
fn listed_suites() -> anyhow::Result<Vec<Listed>> {
    let question = |name| anyhow::Ok(read::load(name)?.suite.question.unwrap_or_default());
    suites().iter().map(|builtin| Ok((builtin.name, builtin.path, question(builtin.name)?))).collect()
}

/// Generates `scenarios/README.md` from the files.
#[cfg(test)]
fn readme() -> anyhow::Result<String> {
    use std::fmt::Write;
    let mut text = String::from(
        "# Shipped scenarios\n\nEach is embedded in the binary under its name: `plimsoll run NAME`, `plimsoll line NAME`. This page is \
         generated from the files.\n\n| name | the question it answers |\n| --- | --- |\n",
    );
    for (name, path, question) in listed()? {
        let path = path.trim_start_matches("scenarios/");
        writeln!(text, "| [`{name}`]({path}) | {question} |")?;
    }
    text += "\n## Pipelines\n\nEvents from a source to a sink: `plimsoll pipeline run NAME`.\n\n| name | the question it answers |\n| --- | --- |\n";
    for (name, path, question) in listed_pipelines()? {
        let path = path.trim_start_matches("scenarios/");
        writeln!(text, "| [`{name}`]({path}) | {question} |")?;
    }
    text += "\n## Suites\n\nTables of tests: `plimsoll suite NAME`.\n\n| name | the question it answers |\n| --- | --- |\n";
    for (name, path, question) in listed_suites()? {
        let path = path.trim_start_matches("scenarios/");
        writeln!(text, "| [`{name}`]({path}) | {question} |")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_scenarios_matches_the_files() {
        crate::commands::schema::tests::hold("scenarios/README.md", &readme().unwrap());
    }
}
