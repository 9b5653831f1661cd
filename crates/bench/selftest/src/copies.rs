//! Checks that the audit names documents that a member of a replica set lacks or changed, and that it understands the shards of a cluster.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use bson::Bson;
use plimsoll_host::replica_set::{Options, ReplicaSet};
use plimsoll_host::sharded::{self, Cluster};

use super::Finding;
use super::defects::{honest, ids, same};
use super::trial::{self, Trial};

/// The documents of each load.
const DOCUMENTS: usize = 20_000;
/// The collection of the loads.
const NAMESPACE: &str = "plimsoll.selftest";
/// The positions of the documents that a member loses.
const LOST: [usize; 3] = [0, 777, 12_000];
const FLIPPED: [usize; 2] = [5, 15_000];

/// Lets one member lose documents and another change some.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn members() -> anyhow::Result<Finding> {
    let set = ReplicaSet::start(Options::default()).context("start a replica set")?;
    let trial = load(set.addresses()[0])?;
    // The first audit lets all members catch up, and finds nothing.
    let before = trial.audit_copies()?;
    let lost = taken(LOST.map(|position| set.lose(1, NAMESPACE, position)))?;
    let flipped = taken(FLIPPED.map(|position| set.flip(2, NAMESPACE, position)))?;
    let found = trial.audit_copies()?;
    let caught = |member: usize| {
        let address = set.addresses()[member].to_string();
        found.differences().find(|(name, _)| *name == address).map(|(_, it)| it.clone()).unwrap_or_default()
    };
    let (first, second) = (caught(1), caught(2));
    let passed = before.holds()
        && before.compared.members.compared.len() == 2
        && found.findings.holds()
        && same(ids(&trial, &first.missing), &lost)
        && same(ids(&trial, &second.corrupted), &flipped)
        && (first.count, second.count) == (lost.len() as u64, flipped.len() as u64);
    let figure = format!(
        "{} lost and {} changed, {} and {} found, the same documents",
        lost.len(),
        flipped.len(),
        first.count,
        second.count
    );
    Ok(Finding::of_defects("members that lose and change documents", 2, passed, honest(passed, figure)))
}

/// Leaves a copy of a document on a second shard, behind a mongos that hides the copy and a mongos that shows
/// it.
///
/// # Errors
/// The load cannot be sent, or its documents cannot be read back.
pub fn shards() -> anyhow::Result<Finding> {
    let (mut orphans, mut doubled, mut passed) = (0, 0, true);
    for shows_orphans in [false, true] {
        let options = sharded::Options { shows_orphans, ..sharded::Options::default() };
        let cluster = Cluster::start(&options).context("start a sharded cluster")?;
        cluster.shard_by_hash(NAMESPACE);
        let trial = load(cluster.addresses()[0])?;
        let before = trial.audit_copies()?;
        let strays = taken([cluster.stray(NAMESPACE, 7, 0, 1)])?;
        let found = trial.audit_copies()?;
        let placement = &found.placed.placement;
        let expected: &[Bson] = if shows_orphans { &strays } else { &[] };
        passed &= before.holds()
            && before.placed.shards.documents.values().sum::<u64>() == DOCUMENTS as u64
            && before.placed.placement == Default::default()
            && same(ids(&trial, &placement.doubled.1), expected)
            && same(ids(&trial, &found.findings.examples.duplicated), expected);
        (orphans, doubled) = (orphans + placement.orphans, doubled + placement.doubled.0);
    }
    let passed = passed && (orphans, doubled) == (1, 1);
    let figure =
        format!("1 hidden and 1 shown, {orphans} orphan and {doubled} duplicate found, the same documents");
    Ok(Finding::of_defects("shards with a copy too many", 1, passed, honest(passed, figure)))
}

fn load(address: SocketAddr) -> anyhow::Result<Trial> {
    let overrides = [format!("phases.0.stop.documents={DOCUMENTS}"), "phases.0.faults=[]".to_owned()];
    trial::run_with("lies", &overrides, address)
}

/// The `_id`s of documents with a defect.
fn taken<const N: usize>(ids: [Option<Bson>; N]) -> anyhow::Result<Vec<Bson>> {
    let taken: Vec<Bson> = ids.into_iter().flatten().collect();
    ensure!(
        taken.len() == N,
        "the simulation has no such document: this is a bug in Plimsoll, please report it"
    );
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_differing_copy_is_named_and_nothing_without_one() {
        for check in [members, shards] {
            let finding = check().unwrap();
            assert!(finding.passed, "{finding:?}");
        }
    }
}
