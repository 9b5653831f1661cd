//! Checks that the audit exactly detects a server which forgets, flips a bit or stores twice.

use anyhow::Context;
use bson::Bson;
use plimsoll_host::faulty::{Defects, Options, Server};

use super::trial::Trial;
use super::{Finding, trial};

/// One document in this many has a defect.
const EVERY: u64 = 1_000_000;
/// One transaction in this many is done in part.
const HALF_EVERY: u64 = 1000;

/// Lets a server forget one document in a million.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn forget() -> anyhow::Result<Finding> {
    let server = start(Defects { forget_every: Some(EVERY), ..Defects::default() })?;
    let trial = trial::run("forget", server.address())?;
    let found = trial.audit()?;
    let introduced: Vec<_> = server.record().forgotten.into_iter().map(|victim| victim.id).collect();
    let others = found.corrupted + found.duplicated + found.phantom;
    let caught = ids(&trial, &found.examples.lost);
    let passed = found.lost == introduced.len() as u64
        && same(caught, &introduced)
        && others == 0
        && !introduced.is_empty();
    let figure = format!(
        "{} forgotten of {}, {} found lost, the same documents",
        introduced.len(),
        server.acknowledged(),
        found.lost
    );
    Ok(Finding { name: "a server that forgets one in a million", passed, figure: honest(passed, figure) })
}

/// Lets a server flip a bit in one document in a million.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn flip() -> anyhow::Result<Finding> {
    let server = start(Defects { flip_every: Some(EVERY), ..Defects::default() })?;
    let trial = trial::run("flip", server.address())?;
    let found = trial.audit()?;
    let introduced: Vec<_> = server.record().flipped.into_iter().map(|flip| flip.victim.id).collect();
    let others = found.lost + found.duplicated + found.phantom;
    let caught = ids(&trial, &found.examples.corrupted);
    let passed = found.corrupted == introduced.len() as u64
        && same(caught, &introduced)
        && others == 0
        && !introduced.is_empty();
    let figure = format!(
        "{} flipped of {}, {} found corrupted, the same documents",
        introduced.len(),
        server.acknowledged(),
        found.corrupted
    );
    Ok(Finding { name: "a server that flips one bit in a million", passed, figure: honest(passed, figure) })
}

/// Lets a server store one document in a million twice.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn duplicate() -> anyhow::Result<Finding> {
    let server = start(Defects { duplicate_every: Some(EVERY), ..Defects::default() })?;
    let trial = trial::run_with("lies", &["phases.0.faults=[]".to_owned()], server.address())?;
    let found = trial.audit()?;
    let introduced: Vec<_> = server.record().duplicated.into_iter().map(|double| double.victim.id).collect();
    let others = found.lost + found.corrupted + found.phantom;
    let caught = ids(&trial, &found.examples.duplicated);
    let passed = found.duplicated == introduced.len() as u64
        && same(caught, &introduced)
        && others == 0
        && !introduced.is_empty();
    let figure = format!(
        "{} stored twice of {}, {} found duplicated, the same documents",
        introduced.len(),
        server.acknowledged(),
        found.duplicated
    );
    Ok(Finding { name: "a server that duplicates one in a million", passed, figure: honest(passed, figure) })
}

/// Lets a server do one transaction in a thousand in part, with an unknown outcome.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn half() -> anyhow::Result<Finding> {
    let server = start(Defects { half_every: Some(HALF_EVERY), ..Defects::default() })?;
    let overrides = [
        "phases.0.load.insert.operation={transaction: {operations: [{insert: {batch: 2}}, {insert: {batch: 1}}]}}",
        "phases.0.stop={operations: 20_000}",
    ];
    let trial = trial::run_with("forget", &overrides.map(str::to_owned), server.address())?;
    let found = trial.audit()?;
    let introduced: Vec<_> = server.record().halved.into_iter().map(|victim| victim.id).collect();
    let others = found.lost + found.corrupted + found.duplicated + found.phantom;
    let caught = ids(&trial, &found.examples.half_transactions);
    let passed = found.half_transactions == introduced.len() as u64
        && same(caught, &introduced)
        && others == 0
        && !introduced.is_empty();
    let figure =
        format!("{} halved, {} found in part, the same documents", introduced.len(), found.half_transactions);
    Ok(Finding {
        name: "a server that halves one transaction in 1000",
        passed,
        figure: honest(passed, figure),
    })
}

pub(super) fn start(defects: Defects) -> anyhow::Result<Server> {
    Server::start(Options { defects, ..Options::default() }).context("start the faulty server")
}

/// The `_id`s of documents by their numbers.
pub(super) fn ids(trial: &Trial, numbers: &[u64]) -> Vec<Bson> {
    let id = |number: &u64| Bson::ObjectId(bson::oid::ObjectId::from_bytes(trial.id(*number)));
    numbers.iter().map(id).collect()
}

/// Whether both lists contain the same documents, in any order.
pub(super) fn same(caught: Vec<Bson>, introduced: &[Bson]) -> bool {
    caught.len() == introduced.len() && introduced.iter().all(|id| caught.contains(id))
}

/// Removes the claim of equality from a failed check.
fn honest(passed: bool, figure: String) -> String {
    if passed { figure } else { figure.replace(", the same documents", ", which is not exact") }
}
