//! Implements `plimsoll selftest`: verifies Plimsoll's accuracy on this machine.

use anyhow::Context;
use plimsoll_measure::clock;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_selftest::{CHECKS, LONG_CHECKS, Size};
use serde::Serialize;

use crate::cli::SelftestArgs;
use crate::terminal::{print, say};

/// Runs every self-test; longer self-tests only on request.
///
/// # Errors
/// A check cannot be run.
pub fn selftest(args: &SelftestArgs) -> Outcome<Exit> {
    if let Some(count) = args.rounds {
        return rounds(args, count);
    }
    if !args.json {
        let time = if args.full { "two minutes" } else { "a minute" };
        say(&format!("Running self-tests; this takes about {time}."));
    }
    let mut findings = Vec::new();
    let more = LONG_CHECKS.into_iter().filter(|_| args.full);
    for check in CHECKS.into_iter().chain(more) {
        let finding = check()?;
        if !args.json {
            let word = if finding.passed { "pass" } else { "FAIL" };
            print(&format!("{word}  {:<40} {}\n", finding.name, finding.figure));
        }
        findings.push(finding);
    }
    if let Some(score) = plimsoll_selftest::score(&findings).filter(|_| !args.json) {
        print(&format!("{score}\n"));
    }
    finish(args, &findings, findings.iter().all(|finding| finding.passed))
}

fn rounds(args: &SelftestArgs, count: u32) -> Outcome<Exit> {
    let size = Size { documents: args.documents, one_in: args.one_in };
    size.check().deserves(Exit::Usage)?;
    let first = args.seed.unwrap_or_else(clock::wall_ms);
    if !args.json {
        say(&format!(
            "{count} rounds from seed {first}; in every second round all connections are cut during the load."
        ));
    }
    let made = plimsoll_selftest::rounds(size, count, first, |round| {
        if !args.json {
            print(&format!("{round}\n"));
        }
    })?;
    finish(args, &made, made.iter().all(|round| round.exact))
}

fn finish(args: &SelftestArgs, results: &impl Serialize, passed: bool) -> Outcome<Exit> {
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(results).context("write the results")?));
    }
    Ok(if passed { Exit::Held } else { Exit::Failed })
}
