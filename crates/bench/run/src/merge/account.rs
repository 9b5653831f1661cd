//! Collects the facts of shards that do not come from their seconds: identity, clients, answers and
//! integrity.

use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::run::{Answers, Client, Joined, Run, ScenarioFacts, ServerShare, ShardFacts};

use super::shard::Shard;

/// The run of all shards, from their own summaries. Facts that are equal for all come from the first shard.
pub fn known(shards: &[Shard], joined: Joined) -> Run {
    let Some(first) = shards.first().map(|shard| &shard.run) else { return Run::default() };
    let runs = || shards.iter().map(|shard| &shard.run);
    let mut server = first.server.clone();
    for address in runs().flat_map(|run| &run.server.addresses) {
        if !server.addresses.contains(address) {
            server.addresses.push(address.clone());
        }
    }
    server.open = runs().all(|run| run.server.open);
    let after = runs().filter_map(|run| run.collection_after.clone());
    Run {
        began_ms: runs().filter_map(|run| run.began_ms).min(),
        joined: Some(joined),
        aborted: runs().find_map(|run| run.aborted.clone()),
        scenario: ScenarioFacts { shard: "0/1".to_owned(), ..first.scenario.clone() },
        server,
        spread: spread(shards),
        answers: answers(shards),
        integrity: integrity(shards),
        client: client(shards),
        bottleneck: runs().find_map(|run| run.bottleneck.clone()),
        // The collection grows, so the largest inspection is the latest.
        collection_after: after.max_by_key(|collection| collection.documents),
        ..shared_facts(first)
    }
}

/// The facts that all shards share.
fn shared_facts(first: &Run) -> Run {
    Run {
        format: first.format,
        id: first.id.clone(),
        command: first.command.clone(),
        started: first.started.clone(),
        started_ms: first.started_ms,
        start_at_ms: first.start_at_ms,
        environment: first.environment.clone(),
        collection_before: first.collection_before.clone(),
        ..Run::default()
    }
}

/// A short summary of each shard.
pub fn facts(shards: &[Shard]) -> Vec<ShardFacts> {
    let fact = |shard: &Shard| {
        let operations = || shard.run.operations.values();
        ShardFacts {
            shard: shard.part().to_owned(),
            directory: shard.name.clone(),
            began_ms: shard.run.began_ms.unwrap_or(shard.run.started_ms),
            operations: operations().map(|it| it.count).sum(),
            documents: operations().map(|it| it.documents).sum(),
            verdict: shard.run.verdict,
            environment: shard.run.environment.clone(),
        }
    };
    shards.iter().map(fact).collect()
}

/// The clients of all shards together. The slowest calibration round trip counts; the ceilings add up.
fn client(shards: &[Shard]) -> Client {
    let clients = || shards.iter().map(|shard| &shard.run.client);
    let positions = |of: fn(&Client) -> usize| clients().map(of).min().unwrap_or(0);
    Client {
        workers: clients().map(|it| it.workers).sum(),
        connections: clients().map(|it| it.connections).sum(),
        rss_bytes_max: clients().map(|it| it.rss_bytes_max).max().unwrap_or(0),
        spin: clients().all(|it| it.spin),
        calibration_ping_ns: (0..positions(|it| it.calibration_ping_ns.len()))
            .filter_map(|at| clients().map(|it| it.calibration_ping_ns[at]).max())
            .collect(),
        calibration_null_per_s: (0..positions(|it| it.calibration_null_per_s.len()))
            .map(|at| clients().map(|it| it.calibration_null_per_s[at]).sum())
            .collect(),
        ..Client::default()
    }
}

fn integrity(shards: &[Shard]) -> Option<Integrity> {
    let found = shards.iter().filter_map(|shard| shard.run.integrity.clone());
    found.reduce(|mut sum, part| {
        sum.merge(&part);
        sum
    })
}

fn answers(shards: &[Shard]) -> Vec<Answers> {
    let mut all: Vec<Answers> = Vec::new();
    for answers in shards.iter().flat_map(|shard| &shard.run.answers) {
        match all.iter_mut().find(|known| known.operation == answers.operation) {
            Some(known) => known.merge(answers),
            None => all.push(answers.clone()),
        }
    }
    all
}

fn spread(shards: &[Shard]) -> Vec<ServerShare> {
    let mut all: Vec<ServerShare> = Vec::new();
    for share in shards.iter().flat_map(|shard| &shard.run.spread) {
        match all.iter_mut().find(|known| known.address == share.address) {
            Some(known) => known.merge(share),
            None => all.push(share.clone()),
        }
    }
    all
}
