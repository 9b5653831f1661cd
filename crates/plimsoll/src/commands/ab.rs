//! Implements `plimsoll ab`: measures two variants in turns and compares them.

use anyhow::{Context, anyhow};
use plimsoll_measure::run::Verdict;
use plimsoll_run::exit::{Exit, Failure, Outcome, worst};
use plimsoll_run::lifecycle;
use plimsoll_series::ab::comparing::exit;
use plimsoll_series::ab::drive::measure;
use plimsoll_series::ab::prepare::Settings;

use super::series::finish;
use crate::cli::AbArgs;
use crate::registry::Registry;
use crate::terminal::say;

/// Measures A and B in turns, and compares them.
///
/// # Errors
/// When the comparison cannot be made.
pub fn ab(args: &AbArgs, registry: &Registry) -> Outcome<Exit> {
    let settings = Settings {
        scenario: args.scenario.clone(),
        a: args.a.clone(),
        b: args.b.clone(),
        pairs: args.pairs,
        same: args.same,
        resume: args.resume.clone(),
        judge: args.judge.judging(),
        load: args.load.options(registry.systems),
        quiet: args.load.is_quiet(),
    };
    let ended = measure(
        &settings,
        lifecycle::signals("continue with --resume and its directory").context("listen to signals")?,
    )?;
    let shown = ended.path.display().to_string();
    if let Some(comparison) = &ended.comparison {
        finish(comparison, &ended.path, args.load.json && !args.load.quiet, args.load.quiet)?;
    }
    let is_invalid = ended.comparison.as_ref().is_some_and(|it| it.a.invalid + it.b.invalid > 0);
    let verdict = if is_invalid { Verdict::Invalid } else { Verdict::Pass };
    if ended.ended != Exit::Held {
        say(&format!(
            "{} of {} pairs are measured and kept. Continue with --resume {shown}",
            ended.pairs, args.pairs
        ));
        return Ok(worst([ended.ended, ended.comparison.map_or(Exit::Held, |it| exit(&it))]));
    }
    let none = || Failure { exit: Exit::Failed, error: anyhow!("{shown} contains no pair") };
    Ok(args.load.strictness.exit(exit(&ended.comparison.ok_or_else(none)?), verdict))
}
