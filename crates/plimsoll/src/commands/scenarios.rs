//! `plimsoll scenarios`: what is shipped, scenarios and suites, and the question each answers.

use crate::cli::ScenariosArgs;
use crate::exit::{Deserves, Exit, Outcome};
use crate::scenario::{builtins, load, suites};
use crate::suite::read;
use crate::terminal::print;

/// Lists the shipped scenarios and suites, or prints one.
///
/// # Errors
/// When there is none of that name.
pub fn scenarios(args: &ScenariosArgs) -> Outcome<Exit> {
    if let Some(name) = &args.name {
        if let Some(suite) = suites().iter().find(|builtin| builtin.name == name) {
            print(suite.text);
            return Ok(Exit::Held);
        }
        load(name, &[], None).deserves(Exit::Usage)?;
        builtins().iter().filter(|builtin| builtin.name == name).for_each(|builtin| print(builtin.text));
        return Ok(Exit::Held);
    }
    for (name, _, question) in listed()? {
        print(&format!("{name:<18} {question}\n"));
    }
    print("\nSuites, for plimsoll suite:\n");
    for (name, _, question) in listed_suites()? {
        print(&format!("{name:<18} {question}\n"));
    }
    Ok(Exit::Held)
}

/// Name, path and question of each shipped scenario.
fn listed() -> anyhow::Result<Vec<(&'static str, &'static str, String)>> {
    let question = |name| anyhow::Ok(load(name, &[], None)?.scenario.question.unwrap_or_default());
    builtins().iter().map(|builtin| Ok((builtin.name, builtin.path, question(builtin.name)?))).collect()
}

/// The same of each shipped suite.
fn listed_suites() -> anyhow::Result<Vec<(&'static str, &'static str, String)>> {
    let question = |name| anyhow::Ok(read::load(name)?.suite.question.unwrap_or_default());
    suites().iter().map(|builtin| Ok((builtin.name, builtin.path, question(builtin.name)?))).collect()
}

/// `scenarios/README.md`, made from the files.
#[cfg(test)]
fn readme() -> anyhow::Result<String> {
    use std::fmt::Write;
    let mut text = String::from(
        "# Shipped scenarios\n\nEach is embedded in the binary under its name: `plimsoll run NAME`, `plimsoll line NAME`. This page is \
         made from the files.\n\n| name | the question it answers |\n| --- | --- |\n",
    );
    for (name, path, question) in listed()? {
        let path = path.trim_start_matches("scenarios/");
        writeln!(text, "| [`{name}`]({path}) | {question} |")?;
    }
    text += "\n## Suites\n\nTests one below the other: `plimsoll suite NAME`.\n\n| name | the question it answers |\n| --- | --- |\n";
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
    fn the_list_of_scenarios_is_that_of_the_files() {
        crate::commands::schema::tests::hold("scenarios/README.md", &readme().unwrap());
    }
}
