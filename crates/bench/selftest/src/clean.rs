//! Checks that the audit and the checks of reads report nothing of a server without a defect.

use plimsoll_host::faulty::{Defects, Server};
use plimsoll_mongo::setup::Copies;
use plimsoll_report::units::exact;

use super::defects::{documents_are_intact, start};
use super::trial::{self, Trial};
use super::{Finding, Score};

/// The rounds of a self-test.
const ROUNDS: u64 = 25;

/// A load of a round: a shipped scenario, and its changes.
struct Load {
    scenario: &'static str,
    changes: &'static [&'static str],
    copies: Copies,
}

/// The loads of each round. The last has more documents: of 50, a worker almost never reads one of another worker.
const LOADS: [Load; 4] = [
    Load {
        scenario: "increments",
        changes: &[
            "phases.0.stop.documents=50",
            "phases.0.load.insert.operation.insert.batch=5",
            "phases.1.load.visit.operation={update: {update: {$inc: {visits: 1, pages: 3}, $set: {state: seen}}}}",
            "phases.1.stop.operations=100",
        ],
        copies: Copies::One,
    },
    Load {
        scenario: "forget",
        changes: &[
            "phases.0.load.insert.operation={transaction: {operations: [{insert: {batch: 2}}, {insert: {batch: 1}}]}}",
            "phases.0.stop={operations: 17}",
        ],
        copies: Copies::One,
    },
    Load {
        scenario: "stale",
        changes: &[
            "phases.0.stop.documents=50",
            "phases.0.load.insert.operation.insert.batch=5",
            "phases.1.stop.operations=200",
        ],
        copies: Copies::One,
    },
    Load {
        scenario: "stale",
        changes: &["read_concern=majority", "write_concern={w: majority}", "phases.1.stop.operations=2_000"],
        copies: Copies::Several,
    },
];

/// Loads a server without a defect, some rounds long.
///
/// # Errors
/// A load cannot be sent, or its documents cannot be read back.
pub fn clean() -> anyhow::Result<Finding> {
    let (acknowledged, accused) = rounds(ROUNDS)?;
    let figure = match &accused {
        None => format!("{ROUNDS} rounds, {} documents, nothing named", exact(acknowledged)),
        Some(accused) => accused.clone(),
    };
    let score = Some(Score { seeded: 0, named: 0 });
    Ok(Finding { name: "a server without a defect", passed: accused.is_none(), figure, score })
}

/// Runs rounds until one reports something. Returns the number of acknowledged documents, and the report.
fn rounds(count: u64) -> anyhow::Result<(u64, Option<String>)> {
    let mut acknowledged = 0;
    for seed in 1..=count {
        for load in &LOADS {
            let server = start(Defects::default())?;
            match reported(&run(load, seed, &server)?)? {
                Ok(documents) => acknowledged += documents,
                Err(report) => return Ok((acknowledged, Some(format!("round {seed}: {report}")))),
            }
        }
    }
    Ok((acknowledged, None))
}

fn run(load: &Load, seed: u64, server: &Server) -> anyhow::Result<Trial> {
    let changes: Vec<String> = load.changes.iter().map(|change| (*change).to_owned()).collect();
    trial::run_on(load.scenario, &changes, seed, (server.address(), load.copies))
}

/// The number of acknowledged documents if nothing is reported, or else the report.
fn reported(trial: &Trial) -> anyhow::Result<Result<u64, String>> {
    let audited = trial.audit_copies()?;
    let (found, operations) = (&audited.findings, trial.summary.operations());
    let failed = operations.iter().find(|(_, operation)| operation.errors.values().any(|count| *count > 0));
    if let Some((name, operation)) = failed {
        return Ok(Err(format!("errors of {name}: {:?}", operation.errors)));
    }
    let unknown = found.unknown_present + found.unknown_absent;
    let is_whole = found.acknowledged > 0 && found.found == found.acknowledged && unknown == 0;
    if audited.holds() && documents_are_intact(found) && is_whole {
        Ok(Ok(found.acknowledged))
    } else {
        Ok(Err(format!("{found:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_reported_without_a_defect() {
        let finding = clean().unwrap();
        assert!(finding.passed, "{finding:?}");
        assert!(finding.figure.starts_with("25 rounds, "), "{finding:?}");
    }

    #[test]
    fn a_round_with_a_defect_reports_it() {
        for (load, defects) in [
            (&LOADS[0], Defects { forget_update_every: Some(50), ..Defects::default() }),
            (&LOADS[1], Defects { half_every: Some(10), ..Defects::default() }),
            (&LOADS[2], Defects { flip_every: Some(3), ..Defects::default() }),
            (&LOADS[3], Defects { unindex_every: Some(1_000), ..Defects::default() }),
        ] {
            let server = start(defects).unwrap();
            assert!(reported(&run(load, 1, &server).unwrap()).unwrap().is_err(), "{defects:?}");
        }
    }

    mod long {
        use super::*;

        #[test]
        #[ignore = "long: cargo xtask test --all runs it"]
        fn nothing_is_reported_in_a_thousand_rounds_without_a_defect() {
            let (acknowledged, accused) = rounds(1_000).unwrap();
            assert_eq!(accused, None);
            assert_eq!(acknowledged, 1_000 * (50 + 51 + 50 + 2_000));
        }
    }
}
