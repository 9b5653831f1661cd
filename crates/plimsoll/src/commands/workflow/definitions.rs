//! Implements `plimsoll workflow definitions`: lists the shipped definitions, or prints one.

use anyhow::{Context, anyhow};
use plimsoll_report::text::hanging;
use plimsoll_workflow_service::examples::{ALL, Example};

use crate::terminal::{list_width, print};
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// Lists the definitions, or prints one.
///
/// # Errors
/// No definition has the name.
pub(super) fn definitions(name: Option<&str>) -> Outcome {
    match name {
        Some(name) => {
            let example = find(name).ok_or_else(|| anyhow!(unknown(name))).deserves(Exit::Usage)?;
            print(example.text);
        }
        None => ALL.iter().try_for_each(line)?,
    }
    Ok(Exit::Held)
}

fn line(example: &Example) -> anyhow::Result<()> {
    let (definition, _) = plimsoll_workflow::file::read(example.text).context(example.name)?;
    let about = definition.description.unwrap_or_default();
    print(&format!("{}\n", hanging(&about, &format!("{:<19} ", example.name), list_width())));
    Ok(())
}

/// The shipped definition of a name.
pub(super) fn find(name: &str) -> Option<&'static Example> {
    ALL.iter().find(|example| example.name == name)
}

fn unknown(name: &str) -> String {
    let names: Vec<_> = ALL.iter().map(|example| example.name).collect();
    let near = plimsoll_yaml::nearest(name, &names).map(|near| format!("; did you mean `{near}`?"));
    format!(
        "no shipped definition is named `{name}`{}",
        near.unwrap_or_else(|| format!(": known are {}", names.join(", ")))
    )
}
