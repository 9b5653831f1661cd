//! Checks that run directories are the shards of one run: finds differences, missing shards, and distant starts.

use anyhow::{bail, ensure};
use plimsoll_load::arrivals::Share;
use plimsoll_measure::environment::ServerKind;
use plimsoll_measure::secret::masked;
use serde_json::Value;

use super::clocks::Clocks;
use super::shard::Shard;

/// The largest distance between shard starts, in milliseconds: the join adds up seconds with equal numbers.
pub const APART_MS_MAX: u64 = 1000;
/// The command that shards run.
const COMMAND: &str = "run";

/// Checks that the shards belong to one run, and sorts them.
///
/// # Errors
/// When shards differ, are missing, appear twice, ended early, or started too far apart.
pub fn check(shards: &mut [Shard]) -> anyhow::Result<()> {
    shards.iter().try_for_each(alone)?;
    let Some((first, others)) = shards.split_first() else { bail!("name the run directory of every shard") };
    others.iter().try_for_each(|other| alike(first, other))?;
    complete(shards)?;
    shards.sort_by_key(|shard| shard.share.index);
    together(shards)
}

/// Checks a shard by itself.
fn alone(shard: &Shard) -> anyhow::Result<()> {
    let (name, run) = (&shard.name, &shard.run);
    ensure!(
        run.joined.is_none(),
        "{name} was joined from shards already: name the run directories of the shards"
    );
    ensure!(
        shard.share != Share::WHOLE,
        "{name} is a whole run, not a shard: measure a shard with `plimsoll run --shard i/n --start-at TIME`"
    );
    ensure!(
        run.command == COMMAND,
        "{name} was measured with `{}`: only shards of `run` are joined",
        run.command
    );
    ensure!(
        !run.interrupted,
        "{name} (shard {}) was ended early ({}): run all shards again, with a new --start-at",
        shard.part(),
        run.reasons.first().map_or("interrupted", String::as_str)
    );
    ensure!(
        matches!(run.server.kind, ServerKind::Address | ServerKind::Service),
        "{name} started its own server: start one server, and give every shard its address with --server"
    );
    Ok(())
}

/// Checks that two shards belong to one run.
fn alike(a: &Shard, b: &Shard) -> anyhow::Result<()> {
    let scenario = || match (&a.scenario, &b.scenario) {
        (Some(left), Some(right)) => difference("", left, right),
        _ => None,
    };
    if a.run.scenario.hash != b.run.scenario.hash {
        let [path, left, right] = scenario().unwrap_or_else(|| {
            ["scenario".to_owned(), a.run.scenario.hash.clone(), b.run.scenario.hash.clone()]
        });
        bail!(
            "{} and {} are of different plans ({path}: {left} and {right}): join the shards of one",
            a.name,
            b.name
        );
    }
    let facts = |shard: &Shard| {
        let Shard { run, share, .. } = shard;
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        [
            ("version of Plimsoll", run.environment.plimsoll.clone()),
            ("number of shards", share.of.to_string()),
            ("seed", run.scenario.seed.to_string()),
            ("client", run.scenario.client.clone()),
            ("version of the server", shown(&run.server.version)),
            ("topology of the server", shown(&run.server.topology)),
            ("number of workers (set `workers: N` in the scenario)", run.client.workers.to_string()),
        ]
    };
    let different = facts(a).into_iter().zip(facts(b)).find(|((_, left), (_, right))| left != right);
    match different {
        None => Ok(()),
        Some(((what, left), (_, right))) => bail!(
            "{} and {} are not shards of one run: the {what} differs ({left} and {right})",
            a.name,
            b.name
        ),
    }
}

/// The first value that differs, with its path. Secrets are masked.
fn difference(path: &str, a: &Value, b: &Value) -> Option<[String; 3]> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (a, b) {
        _ if a == b => None,
        (Value::Object(left), Value::Object(right)) => {
            let of =
                |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
            let mut keys = left.keys().chain(right.keys());
            keys.find_map(|key| difference(&below(key), &of(left, key), &of(right, key)))
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.find_map(|(index, (left, right))| difference(&below(&index.to_string()), left, right))
        }
        _ => Some([path.to_owned(), masked(path, a).to_string(), masked(path, b).to_string()]),
    }
}

/// Checks that each shard is present exactly once.
fn complete(shards: &[Shard]) -> anyhow::Result<()> {
    for (at, shard) in shards.iter().enumerate() {
        if let Some(same) = shards[..at].iter().find(|other| other.share == shard.share) {
            bail!("{} and {} are both shard {}: name each shard once", same.name, shard.name, shard.part());
        }
    }
    let of = shards[0].share.of;
    let is_there = |index: &u64| shards.iter().any(|shard| shard.share.index == *index);
    let missing: Vec<_> =
        (0..of).filter(|index| !is_there(index)).map(|index| format!("{index}/{of}")).collect();
    ensure!(
        missing.is_empty(),
        "shard {} is missing: name the run directories of all {of} shards",
        missing.join(", ")
    );
    Ok(())
}

/// Checks that the shards ran at the same time, as one run.
fn together(shards: &[Shard]) -> anyhow::Result<()> {
    shards.iter().try_for_each(steady)?;
    let began = |shard: &Shard| shard.run.began_ms.unwrap_or(shard.run.started_ms);
    let clocks = Clocks::of(shards);
    let Some(gap) = clocks.gap(shards.iter().map(began).enumerate()) else { return Ok(()) };
    ensure!(
        clocks.possible_ms(gap) <= APART_MS_MAX,
        "{} began {:.1} s after {} ({}), and shards of one run begin within {} s: give all of them the same --start-at, and synchronise \
         their machines' clocks (chrony or NTP)",
        shards[gap.last].name,
        gap.ms as f64 / 1000.0,
        shards[gap.first].name,
        clocks.words(),
        APART_MS_MAX / 1000
    );
    if let Some(other) = shards.iter().find(|shard| shard.run.id != shards[0].run.id) {
        bail!(
            "{} and {} are different runs with different documents: give all shards of one run the same --start-at",
            shards[0].name,
            other.name
        );
    }
    Ok(())
}

/// Checks that no clock was set during the load. If one was, the moment of the shard's start is unknown.
fn steady(shard: &Shard) -> anyhow::Result<()> {
    let moved_ms = shard.run.client.server_clock.as_ref().map_or(0, |clock| clock.moved_ms());
    ensure!(
        moved_ms <= APART_MS_MAX,
        "during the load of {}, its machine's clock and the server's moved apart by {:.1} s: synchronise the clocks (chrony or NTP), \
         and run all shards again, with a new --start-at",
        shard.name,
        moved_ms as f64 / 1000.0
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use plimsoll_measure::clock_offset::{ClockOffset, ServerClock};
    use plimsoll_measure::environment::{Environment, ServerFacts};
    use plimsoll_measure::run::{Client, Joined, Run, ScenarioFacts};
    use serde_json::json;

    use super::*;

    fn shard(index: u64) -> Shard {
        let run = Run {
            id: "one".into(),
            command: "run".into(),
            began_ms: Some(50_000 + index),
            scenario: ScenarioFacts {
                hash: "abc".into(),
                shard: format!("{index}/3"),
                ..ScenarioFacts::default()
            },
            client: Client { workers: 2, ..Client::default() },
            environment: Environment { plimsoll: "1.0".into(), ..Environment::default() },
            server: ServerFacts::default(),
            ..Run::default()
        };
        let scenario = Some(json!({"seed": 1, "phases": [{"stop": "2s"}]}));
        Shard {
            name: format!("run-{index}"),
            path: PathBuf::new(),
            run,
            share: Share { index, of: 3 },
            scenario,
        }
    }

    fn refused(change: impl FnOnce(&mut Vec<Shard>)) -> String {
        let mut shards: Vec<_> = (0..3).map(shard).collect();
        change(&mut shards);
        check(&mut shards).unwrap_err().to_string()
    }

    #[test]
    fn all_shards_of_one_run_are_put_in_order() {
        let mut shards: Vec<_> = [2, 0, 1].map(shard).into();
        check(&mut shards).unwrap();
        assert_eq!(shards.iter().map(|it| it.share.index).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn an_incomplete_or_inconsistent_set_of_shards_is_refused_with_the_reason() {
        type Change = fn(&mut Vec<Shard>);
        let changes: [(Change, &str); 19] = [
            (|all| drop(all.remove(1)), "shard 1/3 is missing"),
            (|all| all.truncate(1), "shard 1/3, 2/3 is missing"),
            (|all| all[2] = all[0].clone(), "run-0 and run-0 are both shard 0/3: name each shard once"),
            (
                |all| {
                    all[1].run.scenario.hash = "other".into();
                    all[1].scenario = Some(json!({"seed": 1, "phases": [{"stop": "3s"}]}));
                },
                "run-0 and run-1 are of different plans (phases.0.stop: \"2s\" and \"3s\")",
            ),
            (
                |all| {
                    all[1].run.scenario.hash = "other".into();
                    all[1].scenario = Some(json!({"seed": 2, "phases": [{"stop": "2s"}]}));
                },
                "different plans (seed: 1 and 2)",
            ),
            (
                |all| {
                    all[1].run.scenario.hash = "other".into();
                    all[1].scenario = Some(json!({
                        "seed": 1, "phases": [{"stop": "2s"}], "http": {"auth": {"bearer": {"token": "swordfish"}}}
                    }));
                },
                "different plans (http: null and {\"auth\":\"…\"})",
            ),
            (
                |all| (all[1].run.scenario.hash, all[1].scenario) = ("other".into(), None),
                "different plans (scenario: abc and other)",
            ),
            (|all| all[2].run.scenario.seed = 7, "the seed differs (0 and 7)"),
            (
                |all| all[2].run.environment.plimsoll = "1.1".into(),
                "the version of Plimsoll differs (1.0 and 1.1)",
            ),
            (|all| all[2].share.of = 4, "the number of shards differs (3 and 4)"),
            (|all| all[2].run.client.workers = 4, "(set `workers: N` in the scenario) differs (2 and 4)"),
            (
                |all| all[2].run.server.version = Some("8.0".into()),
                "version of the server differs (unknown and 8.0)",
            ),
            (|all| all[0].run.began_ms = Some(53_002), "run-0 began 3.0 s after run-1"),
            (
                |all| {
                    for (shard, offset_ms) in all.iter_mut().zip([0, 0, -2_000]) {
                        let offsets = vec![ClockOffset { min_ms: offset_ms - 3, max_ms: offset_ms + 3 }];
                        shard.run.client.server_clock =
                            Some(ServerClock { address: "a".into(), process: None, offsets });
                    }
                },
                "run-1 began 2.0 s after run-2 (by the server's clock, ± 3 ms)",
            ),
            (|all| all[1].run.id = "two".into(), "are different runs with different documents"),
            (|all| all[1].run.interrupted = true, "run-1 (shard 1/3) was ended early (interrupted)"),
            (|all| all[1].run.command = "line".into(), "only shards of `run` are joined"),
            (|all| all[0].run.joined = Some(Joined::default()), "was joined from shards already"),
            (|all| all[0].run.server.kind = ServerKind::Embedded, "started its own server"),
        ];
        for (change, part) in changes {
            let message = refused(change);
            assert!(message.contains(part), "{part}: {message}");
        }
        let whole = refused(|all| all[0].share = Share::WHOLE);
        assert!(whole.contains("is a whole run, not a shard"), "{whole}");
    }
    #[test]
    fn a_shard_whose_clock_was_set_during_its_load_is_refused() {
        let message = refused(|all| {
            let offsets = [0, 3_000].map(|ms| ClockOffset { min_ms: ms, max_ms: ms + 2 }).to_vec();
            all[1].run.client.server_clock =
                Some(ServerClock { address: "a".into(), process: None, offsets });
        });
        let part = "during the load of run-1, its machine's clock and the server's moved apart by 3.0 s";
        assert!(message.contains(part), "{message}");
    }
}
