//! Checks that a server which forgets, flips a bit or stores twice is caught exactly.

use anyhow::Context;
use bson::Bson;
use plimsoll_host::faulty::{Defects, Options, Server};

use super::trial::Trial;
use super::{Finding, trial};

/// One document in so many is lied about.
const EVERY: u64 = 1_000_000;

/// Lets a server forget one document in a million.
///
/// # Errors
/// When the load cannot be sent, or its documents not read back.
pub fn forget() -> anyhow::Result<Finding> {
    let server = start(Defects { forget_every: Some(EVERY), ..Defects::default() })?;
    let trial = trial::run("forget", server.address())?;
    let found = trial.audit()?;
    let told: Vec<_> = server.record().forgotten.into_iter().map(|victim| victim.id).collect();
    let others = found.corrupted + found.duplicated + found.phantom;
    let caught = ids(&trial, &found.examples.lost);
    let passed = found.lost == told.len() as u64 && same(caught, &told) && others == 0 && !told.is_empty();
    let figure = format!(
        "{} forgotten of {}, {} found lost, the same ones",
        told.len(),
        server.acknowledged(),
        found.lost
    );
    Ok(Finding { name: "a server that forgets one in a million", passed, figure: honest(passed, figure) })
}

/// Lets a server flip a bit in one document in a million.
///
/// # Errors
/// When the load cannot be sent, or its documents not read back.
pub fn flip() -> anyhow::Result<Finding> {
    let server = start(Defects { flip_every: Some(EVERY), ..Defects::default() })?;
    let trial = trial::run("flip", server.address())?;
    let found = trial.audit()?;
    let told: Vec<_> = server.record().flipped.into_iter().map(|flip| flip.victim.id).collect();
    let others = found.lost + found.duplicated + found.phantom;
    let caught = ids(&trial, &found.examples.corrupted);
    let passed =
        found.corrupted == told.len() as u64 && same(caught, &told) && others == 0 && !told.is_empty();
    let figure = format!(
        "{} flipped of {}, {} found corrupted, the same ones",
        told.len(),
        server.acknowledged(),
        found.corrupted
    );
    Ok(Finding { name: "a server that flips one bit in a million", passed, figure: honest(passed, figure) })
}

/// Lets a server store one document in a million twice.
///
/// # Errors
/// When the load cannot be sent, or its documents not read back.
pub fn duplicate() -> anyhow::Result<Finding> {
    let server = start(Defects { duplicate_every: Some(EVERY), ..Defects::default() })?;
    let trial = trial::run_with("lies", &["phases.0.faults=[]".to_owned()], server.address())?;
    let found = trial.audit()?;
    let told: Vec<_> = server.record().duplicated.into_iter().map(|double| double.victim.id).collect();
    let others = found.lost + found.corrupted + found.phantom;
    let caught = ids(&trial, &found.examples.duplicated);
    let passed =
        found.duplicated == told.len() as u64 && same(caught, &told) && others == 0 && !told.is_empty();
    let figure = format!(
        "{} stored twice of {}, {} found duplicated, the same ones",
        told.len(),
        server.acknowledged(),
        found.duplicated
    );
    Ok(Finding { name: "a server that doubles one in a million", passed, figure: honest(passed, figure) })
}

pub(super) fn start(defects: Defects) -> anyhow::Result<Server> {
    Server::start(Options { defects, ..Options::default() }).context("start the faulty server")
}

/// The `_id`s of documents by their numbers.
pub(super) fn ids(trial: &Trial, numbers: &[u64]) -> Vec<Bson> {
    let id = |number: &u64| Bson::ObjectId(bson::oid::ObjectId::from_bytes(trial.id(*number)));
    numbers.iter().map(id).collect()
}

/// Whether both are the same documents, in whatever order.
pub(super) fn same(caught: Vec<Bson>, told: &[Bson]) -> bool {
    caught.len() == told.len() && told.iter().all(|id| caught.contains(id))
}

/// A failed check does not say that they are the same ones.
fn honest(passed: bool, figure: String) -> String {
    if passed { figure } else { figure.replace(", the same ones", ", which is not exact") }
}
