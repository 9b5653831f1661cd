//! Kills the process of a pipeline at random moments: the next process continues.

use std::env;
use std::process::{Child, Command, Stdio};

use plimsoll_kafka::scenario;

use crate::support::{
    audit, broker, copy, copy_once, counts, ends, fill, from, once, read, to, topic, until, until_committed,
};

const PARTITIONS: u16 = 3;
const EACH: u64 = 15_000;
const KILLS: u64 = 4;
/// The limit of attempts until a kill hits records in flight.
const ROUNDS: u64 = 4;
/// The variable that gives a child process its guarantee, brokers and test name.
const WORDS: &str = "PLIMSOLL_KAFKA_CHILD";

/// A process that is killed when its test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

fn typed(brokers: &str, name: &str) -> (scenario::Source, scenario::Sink) {
    let mut source = from(brokers, &format!("{name}-in"), name);
    // The group waits this long for a killed member; a broker allows no shorter session.
    source.properties.0.insert("session.timeout.ms".to_owned(), scenario::Property("6000".to_owned()));
    (source, to(brokers, &format!("{name}-out")))
}

/// The body of the child process; without the variable it does nothing.
#[test]
fn a_process_of_its_own_runs_until_it_is_killed() {
    let Ok(words) = env::var(WORDS) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let (source, sink) = typed(words[1], words[2]);
    let running = match words[0] {
        "once" => copy_once(&source, &sink, &once(words[2], None)),
        _ => copy(&source, &sink),
    };
    running.pipeline.join().unwrap().unwrap();
}

fn process(guarantee: &str, brokers: &str, name: &str) -> Killed {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "kills::a_process_of_its_own_runs_until_it_is_killed", "--nocapture"]);
    command.env(WORDS, format!("{guarantee} {brokers} {name}")).stdout(Stdio::null());
    Killed(command.spawn().unwrap())
}

/// Kills a pipeline several times; returns the missing and the duplicated records.
fn kill_some(guarantee: &str, name: &str) -> (Vec<String>, Vec<String>) {
    let brokers = broker().bootstrap();
    let (source, target) = (
        topic(&brokers, &format!("{name}-in"), PARTITIONS),
        topic(&brokers, &format!("{name}-out"), PARTITIONS),
    );
    fill(&brokers, &source, PARTITIONS, EACH);
    let mut random = plimsoll_measure::clock::wall_ms();
    println!("seed {random}");
    let written = || ends(&brokers, &target).iter().map(|extent| extent.end).sum::<u64>();
    for _ in 0..KILLS {
        // Knuth's MMIX generator, whose upper bits are the most random.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // At most the number of existing records: a process may have written all of them before the kill.
        let some = (written() + 1 + (random >> 33) % 5000).min(u64::from(PARTITIONS) * EACH);
        let _process = process(guarantee, &brokers, name);
        until("some records", || written() >= some);
    }
    let _process = process(guarantee, &brokers, name);
    until_committed(&brokers, &source, name);
    audit(&counts(&read(&brokers, &target)), PARTITIONS, EACH)
}

#[test]
fn at_least_once_loses_nothing_when_its_process_is_killed() {
    // Kills may all miss records in flight; such a round proves nothing.
    let hit = (1..=ROUNDS).any(|round| {
        let (missing, doubled) = kill_some("alo", &format!("kill-alo-{round}"));
        assert_eq!(missing, Vec::<String>::new());
        !doubled.is_empty()
    });
    assert!(hit, "no kill hit anything");
}

#[test]
fn exactly_once_neither_loses_nor_duplicates_when_its_process_is_killed() {
    assert_eq!(kill_some("once", "kill-once"), (vec![], vec![]));
}
