//! Checks that the audit exactly detects a server which forgets, flips a bit or stores twice.

use anyhow::Context;
use bson::Bson;
use plimsoll_host::faulty::{DamagedDocument, Defects, Options, Server};
use plimsoll_ledger::Findings;

use super::trial::Trial;
use super::{Finding, trial};

/// One document in this many has a defect.
const EVERY: u64 = 1_000_000;
/// One transaction in this many is done in part.
const HALF_EVERY: u64 = 1000;
/// One document in this many is dropped from an index.
const UNINDEX_EVERY: u64 = 10_000;
/// One update in this many is forgotten, or applied twice.
const UPDATE_EVERY: u64 = 500;
/// An update of two counters and another field.
const TWO_COUNTERS: &str =
    "phases.1.load.visit.operation={update: {update: {$inc: {visits: 1, pages: 3}, $set: {state: seen}}}}";
/// Updates of several kinds, one of which each operation makes.
const SEVERAL_KINDS: &str = "phases.1.load.visit.operation={update: {update: {one_of: [{$inc: {visits: 1}}, \
    {$inc: {visits: 5, pages: 2}, $set: {state: seen}}, {$push: {tags: late}}]}}}";

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
    Ok(Finding::of_defects("a server that forgets one in a million", 1, passed, honest(passed, figure)))
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
    Ok(Finding::of_defects("a server that flips one bit in a million", 1, passed, honest(passed, figure)))
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
    Ok(Finding::of_defects("a server that duplicates one in a million", 1, passed, honest(passed, figure)))
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
    Ok(Finding::of_defects("a server that halves one transaction in 1000", 1, passed, honest(passed, figure)))
}

/// Lets a server forget one acknowledged increment in 500.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn forget_increments() -> anyhow::Result<Finding> {
    let server = start(Defects { forget_update_every: Some(UPDATE_EVERY), ..Defects::default() })?;
    let trial = trial::run("increments", server.address())?;
    let found = trial.audit()?;
    let introduced = victims(server.record().forgotten_updates);
    let caught = ids(&trial, &found.examples.lost_increments);
    let passed = found.lost_increments == introduced.len() as u64
        && found.extra_increments == 0
        && same_documents(&caught, &introduced)
        && documents_are_intact(&found);
    let figure =
        format!("{} forgotten, {} found lost, the same documents", introduced.len(), found.lost_increments);
    Ok(Finding::of_defects("a server that forgets one increment in 500", 1, passed, honest(passed, figure)))
}

/// Lets a server apply one increment in 500 twice.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn repeat_increments() -> anyhow::Result<Finding> {
    let server = start(Defects { repeat_update_every: Some(UPDATE_EVERY), ..Defects::default() })?;
    let trial = trial::run("increments", server.address())?;
    let found = trial.audit()?;
    let introduced = victims(server.record().repeated_updates);
    let caught = ids(&trial, &found.examples.extra_increments);
    let passed = found.extra_increments == introduced.len() as u64
        && found.lost_increments == 0
        && same_documents(&caught, &introduced)
        && documents_are_intact(&found);
    let figure =
        format!("{} repeated, {} found extra, the same documents", introduced.len(), found.extra_increments);
    Ok(Finding::of_defects("a server that repeats one increment in 500", 1, passed, honest(passed, figure)))
}

/// Lets a server apply one update in 500 of two counters and another field in part: it increments only one of them.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn tear_updates() -> anyhow::Result<Finding> {
    let server = start(Defects { tear_update_every: Some(UPDATE_EVERY), ..Defects::default() })?;
    let trial = trial::run_with("increments", &[TWO_COUNTERS.to_owned()], server.address())?;
    let found = trial.audit()?;
    let introduced = victims(server.record().torn_updates);
    let caught = ids(&trial, &found.examples.lost_increments);
    let passed = found.lost_increments == introduced.len() as u64
        && found.extra_increments == 0
        && same_documents(&caught, &introduced)
        && documents_are_intact(&found);
    let figure = format!(
        "{} torn, {} found with a lost increment, the same documents",
        introduced.len(),
        found.lost_increments
    );
    Ok(Finding::of_defects("a server that halves one update in 500", 1, passed, honest(passed, figure)))
}

/// Lets a server forget one acknowledged update in 500, of several kinds.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn forget_updates() -> anyhow::Result<Finding> {
    let server = start(Defects { forget_update_every: Some(UPDATE_EVERY), ..Defects::default() })?;
    let trial = trial::run_with("increments", &[SEVERAL_KINDS.to_owned()], server.address())?;
    let found = trial.audit()?;
    let introduced = victims(server.record().forgotten_updates);
    let caught = ids(&trial, &found.examples.lost_increments);
    // Several forgotten updates of one document may look like fewer.
    let passed = found.lost_increments <= introduced.len() as u64
        && found.extra_increments == 0
        && same_documents(&caught, &introduced)
        && documents_are_intact(&found);
    let figure =
        format!("{} forgotten, {} found lost, the same documents", introduced.len(), found.lost_increments);
    Ok(Finding::of_defects("a server that forgets one update in 500", 1, passed, honest(passed, figure)))
}

/// Lets a server apply one update in 500 twice, of several kinds.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn repeat_updates() -> anyhow::Result<Finding> {
    let server = start(Defects { repeat_update_every: Some(UPDATE_EVERY), ..Defects::default() })?;
    let trial = trial::run_with("increments", &[SEVERAL_KINDS.to_owned()], server.address())?;
    let found = trial.audit()?;
    let introduced = victims(server.record().repeated_updates);
    let caught = ids(&trial, &found.examples.extra_increments);
    let passed = found.extra_increments <= introduced.len() as u64
        && found.lost_increments == 0
        && same_documents(&caught, &introduced)
        && documents_are_intact(&found);
    let figure =
        format!("{} repeated, {} found extra, the same documents", introduced.len(), found.extra_increments);
    Ok(Finding::of_defects("a server that repeats one update in 500", 1, passed, honest(passed, figure)))
}

/// Lets a server drop one document in 10,000 from an index.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn unindex() -> anyhow::Result<Finding> {
    let server = start(Defects { unindex_every: Some(UNINDEX_EVERY), ..Defects::default() })?;
    let trial = trial::run_with("forget", &["phases.0.stop.documents=500_000".to_owned()], server.address())?;
    let found = trial.audit()?;
    let introduced = victims(server.record().unindexed);
    let caught = ids(&trial, &found.examples.missing_from_index);
    let passed = found.missing_from_index == introduced.len() as u64
        && same_documents(&caught, &introduced)
        && documents_are_intact(&found);
    let figure = format!(
        "{} dropped, {} found missing, the same documents",
        introduced.len(),
        found.missing_from_index
    );
    Ok(Finding::of_defects("an index that lacks one in 10,000", 1, passed, honest(passed, figure)))
}

/// Lets a server show other connections the version before the last update.
///
/// # Errors
/// The load cannot be sent.
pub fn stale() -> anyhow::Result<Finding> {
    let server = start(Defects { stale_read_every: Some(1), ..Defects::default() })?;
    let noticed = stale_reads(&trial::run("stale", server.address())?);
    let introduced = server.record().stale_reads.len() as u64;
    // The update before such a read may have no answer yet: then both versions are right.
    let passed = noticed > 0 && noticed <= introduced && noticed >= introduced / 2;
    let figure = format!("{introduced} stale reads of others, {noticed} noticed");
    Ok(Finding::of_defects("a server that shows others an older document", 1, passed, figure))
}

/// Trials until a worker reads between another worker's read and its repetition.
const BACKWARDS_TRIALS_MAX: u32 = 20;

/// Lets a server leave the outcome of every update unknown, and then show the update only to the worker that
/// sent it.
///
/// # Errors
/// The load cannot be sent.
pub fn backwards() -> anyhow::Result<Finding> {
    let (mut introduced, mut noticed, mut accused) = (0, 0, 0);
    // If another worker reads before the sender of the update has read it, no anomaly occurs.
    for _ in 0..BACKWARDS_TRIALS_MAX {
        let server =
            start(Defects { doubt_update_every: Some(1), stale_read_every: Some(1), ..Defects::default() })?;
        let trial = read_at_majority(&server)?;
        noticed += reads(&trial, "non_monotonic_read");
        introduced += server.record().stale_reads.len() as u64;
        accused += stale_reads(&trial);
        if noticed > 0 {
            break;
        }
    }
    let passed = noticed > 0 && noticed <= introduced && accused == 0;
    let figure = format!("{introduced} reads of others went back, {noticed} noticed");
    Ok(Finding::of_defects("a server that takes back updates others read", 1, passed, figure))
}

fn read_at_majority(server: &Server) -> anyhow::Result<Trial> {
    let overrides = ["read_concern=majority", "write_concern={w: majority}"].map(str::to_owned);
    trial::run_as_replicated("stale", &overrides, server.address())
}

fn stale_reads(trial: &Trial) -> u64 {
    reads(trial, "stale_read")
}

/// The reads of a trial with this anomaly.
fn reads(trial: &Trial, anomaly: &str) -> u64 {
    let operations = trial.summary.operations();
    operations.values().filter_map(|operation| operation.errors.get(anomaly)).sum()
}

/// Whether every document exists once, with its content.
pub(super) fn documents_are_intact(found: &Findings) -> bool {
    found.lost + found.corrupted + found.duplicated + found.phantom + found.not_audited == 0
}

fn victims(victims: Vec<DamagedDocument>) -> Vec<Bson> {
    victims.into_iter().map(|victim| victim.id).collect()
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

/// Whether exactly these documents, and at least one, have a defect. One document may have several defects.
fn same_documents(caught: &[Bson], introduced: &[Bson]) -> bool {
    !introduced.is_empty()
        && caught.iter().all(|id| introduced.contains(id))
        && introduced.iter().all(|id| caught.contains(id))
}

/// Removes the claim of equality from a failed check.
pub(super) fn honest(passed: bool, figure: String) -> String {
    if passed { figure } else { figure.replace(", the same documents", ", which is not exact") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seeded_defect_of_increments_indexes_and_reads_is_named_and_nothing_without_one() {
        let increments = [forget_increments, repeat_increments, tear_updates];
        let others = [forget_updates, repeat_updates, unindex, stale, backwards];
        for check in increments.into_iter().chain(others) {
            let finding = check().unwrap();
            assert!(finding.passed, "{finding:?}");
        }
        let every_operator = "phases.1.load.visit.operation={update: {update: {one_of: [{$inc: {visits: 2}}, \
            {$max: {top: 3}}, {$max: {top: 9}}, {$set: {state: a}}, {$set: {state: b}}, {$addToSet: {tags: x}}]}}}";
        let overrides = [TWO_COUNTERS, SEVERAL_KINDS, every_operator].map(|it| vec![it.to_owned()]);
        for overrides in [Vec::new()].into_iter().chain(overrides) {
            let server = start(Defects::default()).unwrap();
            let trial = trial::run_with("increments", &overrides, server.address()).unwrap();
            let found = trial.audit().unwrap();
            assert!(found.holds() && documents_are_intact(&found), "{found:?}");
            assert_eq!((found.acknowledged, found.found), (20_000, 20_000));
        }
        let server = start(Defects::default()).unwrap();
        let trial = trial::run("stale", server.address()).unwrap();
        assert_eq!((stale_reads(&trial), trial.audit().unwrap().holds()), (0, true));
        let server = start(Defects { doubt_update_every: Some(1), ..Defects::default() }).unwrap();
        let trial = read_at_majority(&server).unwrap();
        let anomalies = ["stale_read", "non_monotonic_read", "corrupted_read"];
        assert_eq!(anomalies.map(|anomaly| reads(&trial, anomaly)), [0; 3]);
    }
}
