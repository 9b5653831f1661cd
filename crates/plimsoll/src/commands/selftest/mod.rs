//! Implements `plimsoll selftest`: verifies Plimsoll's accuracy on this machine.

mod arithmetic;
mod copies;
mod defects;
mod freeze;
mod pairs;
mod rate;
mod rounds;
mod trial;

use anyhow::Context;
use serde::Serialize;

use crate::cli::SelftestArgs;
use crate::terminal::{print, say};
use plimsoll_run::exit::{Exit, Outcome};

/// The result of one self-test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub name: &'static str,
    /// Whether it passed.
    pub passed: bool,
    /// The measured and the expected values.
    pub figure: String,
}

type Check = fn() -> anyhow::Result<Finding>;

const CHECKS: [Check; 16] = [
    arithmetic::percentiles,
    arithmetic::merge,
    rate::rate,
    freeze::freeze,
    defects::forget,
    defects::flip,
    defects::duplicate,
    defects::half,
    defects::forget_increments,
    defects::repeat_increments,
    defects::tear_updates,
    defects::unindex,
    defects::stale,
    defects::backwards,
    copies::members,
    copies::shards,
];

/// The longer checks.
const MORE: [Check; 2] = [pairs::same, pairs::handicap];

/// Runs every self-test; longer self-tests only on request.
///
/// # Errors
/// A check cannot be run.
pub fn selftest(args: &SelftestArgs) -> Outcome<Exit> {
    if let Some(rounds) = args.rounds {
        return rounds::rounds(args, rounds);
    }
    if !args.json {
        let time = if args.full { "two minutes" } else { "a minute" };
        say(&format!("Running self-tests; this takes about {time}."));
    }
    let mut findings = Vec::new();
    let more = MORE.into_iter().filter(|_| args.full);
    for check in CHECKS.into_iter().chain(more) {
        let finding = check()?;
        if !args.json {
            let word = if finding.passed { "pass" } else { "FAIL" };
            print(&format!("{word}  {:<40} {}\n", finding.name, finding.figure));
        }
        findings.push(finding);
    }
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&findings).context("write the findings")?));
    }
    let passed = findings.iter().all(|finding| finding.passed);
    Ok(if passed { Exit::Held } else { Exit::Failed })
}
