//! `plimsoll selftest`: verifies Plimsoll's accuracy on this machine.

mod arithmetic;
mod freeze;
mod liars;
mod pairs;
mod rate;
mod rounds;
mod trial;

use anyhow::Context;
use serde::Serialize;

use crate::cli::SelftestArgs;
use crate::terminal::{print, say};
use plimsoll_run::exit::{Exit, Outcome};

/// What one self-test found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub name: &'static str,
    /// Whether it held.
    pub passed: bool,
    /// What was measured, and what was expected.
    pub figure: String,
}

type Check = fn() -> anyhow::Result<Finding>;

const CHECKS: [Check; 7] = [
    arithmetic::percentiles,
    arithmetic::merge,
    rate::rate,
    freeze::freeze,
    liars::forget,
    liars::flip,
    liars::duplicate,
];

/// Those that take longer.
const MORE: [Check; 2] = [pairs::same, pairs::handicap];

/// Runs every self-test; those that take longer where that was asked for.
///
/// # Errors
/// When one cannot be made at all.
pub fn selftest(args: &SelftestArgs) -> Outcome<Exit> {
    if let Some(rounds) = args.rounds {
        return rounds::rounds(args, rounds);
    }
    if !args.json {
        let time = if args.full { "two minutes" } else { "a minute" };
        say(&format!("Checking the ruler; this takes about {time}."));
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
