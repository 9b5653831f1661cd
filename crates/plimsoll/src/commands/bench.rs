//! Implements `plimsoll bench`: runs one operation that the options describe.

use super::run::once;
use crate::cli::BenchArgs;
use crate::registry::Registry;
use crate::terminal::print;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::lifecycle::check;
use plimsoll_scenario::from_options::{NAME, Operation, Options};
use plimsoll_scenario::load_text;

/// Runs the scenario of the options as `plimsoll run` does, or prints it.
///
/// # Errors
/// When an option is invalid, or the run cannot be done.
pub fn bench(args: &BenchArgs, registry: &Registry) -> Outcome<Exit> {
    let load = &args.once.load;
    let text = options(args).scenario().deserves(Exit::Usage)?;
    let loaded = load_text(text.clone(), &load.overrides, load.seed).deserves(Exit::Usage)?;
    if args.print_scenario {
        check(NAME, loaded, &load.options(registry.systems), None)?;
        print(&text.overridden(&load.overrides, load.seed).deserves(Exit::Usage)?);
        return Ok(Exit::Held);
    }
    once(NAME, loaded, &args.once, registry)
}

fn options(args: &BenchArgs) -> Options {
    let operation = match (&args.insert, &args.find, &args.update) {
        (Some(document), _, _) => Operation::Insert(document.clone()),
        (None, _, Some(update)) => Operation::Update { update: update.clone(), filter: args.filter.clone() },
        (None, find, None) => Operation::Find(find.clone().flatten()),
    };
    Options {
        operation,
        document: args.document.clone(),
        documents: args.documents,
        batch: args.batch,
        rate: args.rate,
        duration: args.duration,
        collection: args.collection.clone(),
        connections: args.connections,
    }
}
