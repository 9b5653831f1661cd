//! Implements `plimsoll run` for a scenario with a matrix: makes and prints its runs.

use anyhow::{Context, anyhow};

use super::series::{finish, tell};
use crate::cli::RunArgs;
use crate::registry::Registry;
use crate::terminal::{print, screen};
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::lifecycle;
use plimsoll_scenario::Loaded;
use plimsoll_series::dry_run;
use plimsoll_series::matrix::drive::make;
use plimsoll_series::matrix::messages::{announce, list};
use plimsoll_series::matrix::prepare::{Prepared, Settings, prepare};

/// Makes the missing runs of a matrix.
///
/// # Errors
/// When a value is invalid, or the matrix cannot be made.
pub fn run(loaded: &Loaded, args: &RunArgs, registry: &Registry) -> Outcome<Exit> {
    let settings = Settings {
        only: args.only.clone(),
        resume: args.resume.clone(),
        load: args.once.load.options(registry.systems),
    };
    let prepared = prepare(loaded, &settings).map_err(|error| loaded.located(error)).deserves(Exit::Usage)?;
    if args.once.dry_run {
        let described = dry_run::of_matrix(&prepared).deserves(Exit::Usage)?;
        described.warnings.iter().for_each(|warning| settings.load.console.warn(warning));
        print(&described.text(screen().width));
        print("\n");
    }
    if args.list || args.once.dry_run {
        return tell_list(&prepared, args);
    }
    if let Some(reason) = &prepared.refusal {
        return Err(Failure { exit: Exit::Usage, error: anyhow!("{reason}") });
    }
    let width = settings.load.console.width();
    settings.load.console.say(&announce(&prepared.announcement(), width));
    let flag = lifecycle::signals("continue with --resume and its directory").context("listen to signals")?;
    let ended = make(prepared, &settings, flag)?;
    finish(&ended.results, &ended.path, args.once.load.json, args.once.load.quiet)?;
    if ended.is_cut {
        let path = ended.path.display();
        settings.load.console.say(&format!("The matrix is incomplete. Continue with --resume {path}"));
    }
    Ok(args.once.load.strictness.exit(ended.exit, ended.results.verdict))
}

fn tell_list(prepared: &Prepared<'_>, args: &RunArgs) -> Outcome<Exit> {
    if args.once.load.json {
        return tell(&prepared.results(), "".as_ref(), true).map(|()| Exit::Held);
    }
    print(&format!("{}\n", announce(&prepared.announcement(), screen().width)));
    print(&list(&prepared.expanded.cells, &prepared.estimates, screen().width));
    if let Some(reason) = &prepared.refusal {
        print(&format!("The run would be refused: {reason}\n"));
    }
    Ok(Exit::Held)
}
