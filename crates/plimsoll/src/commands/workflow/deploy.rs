//! Implements `plimsoll workflow deploy`: reads definitions, and keeps them in the store.

use std::path::Path;

use anyhow::{Context, anyhow};
use plimsoll_workflow::definition::Definition;
use plimsoll_workflow::file::{FILE_BYTES_MAX, ReadError, read};
use plimsoll_workflow::port::Inserted;
use plimsoll_workflow_service::engine::DeployError;
use plimsoll_yaml::{Fault, Slip, text_of};
use serde_json::json;

use super::definitions::find;
use super::store::{Opened, print_json, refused};
use crate::cli::DeployArgs;
use crate::terminal::print;
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};

/// Deploys all files, or none if one is invalid.
///
/// # Errors
/// A file is invalid, or the store fails.
pub(super) fn deploy(args: &DeployArgs) -> Outcome {
    let definitions = args.files.iter().map(|file| definition(file));
    let definitions = definitions.collect::<anyhow::Result<Vec<_>>>().deserves(Exit::Usage)?;
    let opened = Opened::create(&args.store)?;
    let mut deployed = Vec::new();
    for definition in &definitions {
        let stored = opened.runtime.block_on(opened.engine.deploy(definition)).map_err(failure)?;
        let stored = if stored == Inserted::New { "new" } else { "known" };
        let version = definition.version();
        if !args.store.json {
            print(&format!("{} {} ({stored})\n", version.name, version.hash.get(..12).unwrap_or_default()));
        }
        deployed.push(json!({"definition": version, "stored": stored}));
    }
    if args.store.json {
        print_json(&json!({"deployed": deployed}))?;
    }
    Ok(Exit::Held)
}

fn failure(error: DeployError) -> Failure {
    match error {
        DeployError::Client(error) => refused(error),
        error @ DeployError::Function(_) => Failure { exit: Exit::Usage, error: error.into() },
    }
}

/// The definition of a file, or of the shipped one with this name.
fn definition(file: &Path) -> anyhow::Result<Definition> {
    let shown = file.display().to_string();
    let shipped = if file.exists() { None } else { find(&shown) };
    let text = match shipped {
        Some(example) => example.text.to_owned(),
        None => text_of(file, FILE_BYTES_MAX as u64).context("workflow deploy")?,
    };
    let (definition, _) = read(&text).map_err(|error| anyhow!(explained(&error, &text, &shown)))?;
    Ok(definition)
}

/// Every problem with its place and a mark below it.
fn explained(error: &ReadError, text: &str, origin: &str) -> String {
    let shown = match error {
        ReadError::Slip(slip) => slip.with_excerpt(text, origin),
        ReadError::Problems(problems) => {
            let slips = problems.iter().map(|(place, problem)| {
                let fault = Fault::Said(problem.words.clone());
                Slip { fault, place: *place, key: None }.with_excerpt(text, origin)
            });
            slips.collect::<Vec<_>>().join("\n")
        }
        ReadError::Large(_) => error.to_string(),
    };
    format!("{origin}: {shown}")
}
