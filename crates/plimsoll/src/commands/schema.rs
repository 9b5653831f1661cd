//! `plimsoll schema`: JSON Schemas made from the types that read and write the files.

use anyhow::Context;
use plimsoll_measure::run::Run;

use crate::cli::{SchemaArgs, SchemaOf};
use crate::exit::{Exit, Outcome};
use crate::scenario::Scenario;
use crate::terminal::print;

/// Prints a schema.
///
/// # Errors
/// When it cannot be written.
pub fn schema(args: &SchemaArgs) -> Outcome<Exit> {
    print(&text(args.of)?);
    Ok(Exit::Held)
}

fn text(of: SchemaOf) -> anyhow::Result<String> {
    let schema = match of {
        SchemaOf::Scenario => schemars::schema_for!(Scenario),
        SchemaOf::Run => schemars::schema_for!(Run),
    };
    Ok(format!("{}\n", serde_json::to_string_pretty(&schema).context("write the schema")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set to write the files anew instead of comparing them.
    const UPDATE: &str = "PLIMSOLL_UPDATE_DOCS";

    #[test]
    fn the_schemas_in_the_docs_are_those_of_the_types() {
        for (of, file) in [(SchemaOf::Scenario, "scenario.schema.json"), (SchemaOf::Run, "run.schema.json")] {
            let path = format!("{}/../../docs/reference/{file}", env!("CARGO_MANIFEST_DIR"));
            let made = text(of).unwrap();
            if std::env::var_os(UPDATE).is_some() {
                std::fs::write(&path, &made).unwrap();
            }
            let kept = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(kept == made, "docs/reference/{file} is out of date: run the tests once with {UPDATE}=1");
        }
    }
}
