//! Implements `plimsoll model`: installs the embedding model of pipelines.

use std::path::Path;

use plimsoll_onnx::model::{Progress, Step, install};

use crate::cli::ModelCommand;
use crate::terminal::{print, say};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::cache;

/// Executes the subcommand.
///
/// # Errors
/// A file cannot be fetched or written, with the remedy.
pub fn model(command: &ModelCommand) -> Outcome {
    match command {
        ModelCommand::Install => installed(cache()?.root()),
    }
}

fn installed(cache: &Path) -> Outcome {
    let installed = install(cache, &mut tell).map_err(anyhow::Error::from).deserves(Exit::Failed)?;
    print(&format!("{}\n", installed.directory().display()));
    Ok(Exit::Held)
}

fn tell(progress: Progress) {
    let seconds = progress.elapsed_ns / 1_000_000_000;
    match progress.step {
        Step::Waiting => say(&format!("{seconds:>3} s  waiting for another installation of the model")),
        Step::Fetching { package, bytes } => {
            say(&format!("{seconds:>3} s  fetching {package}, {} MB", bytes / 1_000_000))
        }
        Step::Building(precision) => say(&format!("{seconds:>3} s  building the model in {precision:?}")),
        Step::Installed => {}
    }
}
