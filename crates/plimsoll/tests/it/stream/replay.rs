//! Dead letters come back: some events are refused, the cause is mended, they are replayed, and the audit is clean.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use plimsoll_host::{Profile, Server};
use plimsoll_kafka::Cluster;
use plimsoll_kafka::broker::Broker;
use plimsoll_kafka::topic::{Admin, Topic};
use plimsoll_kafka::topic_scan;
use plimsoll_wire::{ConnectOptions, Connection};
use serde_json::Value;
use tempfile::TempDir;

use super::scale_out::{count, until};
use super::{audit, broker, file, start, sum, terminate};
use crate::program::{json, plimsoll_with, server, stderr, uri};

const EVENTS: u64 = 2000;
/// Every so many lines one is no JSON, where such are asked for.
const BAD_EVERY: u64 = 100;
const LONG: Duration = Duration::from_secs(60);

/// A broker with a topic of lines.
struct Ground {
    dir: TempDir,
    broker: Broker,
}

impl Ground {
    /// The lines are numbers as JSON; some are not, if `bad` is.
    fn new(bad: bool) -> Self {
        let ground = Self { dir: tempfile::tempdir().unwrap(), broker: broker() };
        let line = |n: u64| match bad && n % BAD_EVERY == 7 {
            true => format!("no json {n}\n"),
            false => format!("{{\"n\":{n}}}\n"),
        };
        fs::write(ground.dir.path().join("in"), (0..EVENTS).map(line).collect::<String>()).unwrap();
        ground.topic("lines", 3);
        let brokers = ground.broker.bootstrap();
        let fill = ground.file(
            "fill.yaml",
            &format!(
                "guarantee: at-most-once\nsource: {{file: {{path: in, format: ndjson}}}}\n\
                 sink: {{kafka: {{brokers: '{brokers}', topic: lines}}}}\npositions: {{file: filled}}\n"
            ),
        );
        assert_eq!(ground.counts(&["run"], &fill)["written_events"], EVENTS);
        ground
    }

    fn topic(&self, name: &str, partitions: u16) {
        let cluster = Cluster::at(self.broker.bootstrap());
        Admin::of(&cluster, LONG).unwrap().reset(&Topic::new(name, partitions)).unwrap();
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        file(self.dir.path(), name, text)
    }

    /// A pipeline from the topic, as a file.
    fn pipeline(&self, name: &str, rest: &str) -> PathBuf {
        let brokers = self.broker.bootstrap();
        let text = format!(
            "name: archive\nsource: {{kafka: {{brokers: '{brokers}', topic: lines, group: g, start: earliest}}}}\n{}",
            rest.replace("BROKERS", &brokers)
        );
        self.file(name, &text)
    }

    fn out(&self) -> PathBuf {
        let taken = fs::read_dir(self.dir.path()).unwrap().count();
        self.dir.path().join(format!("run-{taken}"))
    }

    /// Runs the pipeline until every event is written or buried; gives how many were buried.
    fn run(&self, path: &Path) -> u64 {
        let out = self.out();
        let mut child = start(path, &out);
        let settled = || count(&out, "written_events") + count(&out, "dead_letter_events");
        until("everything is settled", &mut [&mut child], || settled() == EVENTS);
        assert_eq!(terminate(child).code(), Some(0));
        count(&out, "dead_letter_events")
    }

    /// Runs a command on a pipeline to its end; gives what it counted.
    fn counts(&self, words: &[&str], path: &Path) -> Value {
        let (out, path) = (self.out(), path.to_str().unwrap());
        let fixed =
            [&["pipeline"][..], words, &[path, "--json", "-q", "--out", out.to_str().unwrap()]].concat();
        let output = plimsoll_with(&fixed);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        json(&output)["last"]["counts"].clone()
    }

    /// Replays; gives how many letters were read, written and buried again.
    fn replay(&self, words: &[&str], path: &Path) -> [u64; 3] {
        let counts = self.counts(&[&["replay"][..], words].concat(), path);
        ["read_events", "written_events", "dead_letter_events"].map(|word| counts[word].as_u64().unwrap())
    }
}

pub fn command(server: &Server, command: RawDocumentBuf) -> RawDocumentBuf {
    let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&options).await.unwrap();
        connection.command("test", &command).await.unwrap()
    })
}

fn documents(server: &Server, collection: &str, query: RawDocumentBuf) -> i64 {
    let reply = command(server, rawdoc! {"count": collection, "query": query});
    reply.get("n").unwrap().unwrap().as_i32().map(i64::from).or(reply.get_i64("n").ok()).unwrap()
}

/// Strangers hold two numbers that are unique.
fn put_in_the_way(server: &Server) {
    let key = rawdoc! {"key": {"n": 1}, "name": "n", "unique": true};
    command(server, rawdoc! {"createIndexes": "events", "indexes": [key]});
    let strangers = [rawdoc! {"_id": "a", "n": 7}, rawdoc! {"_id": "b", "n": 1500}];
    let [first, second] = strangers;
    command(server, rawdoc! {"insert": "events", "documents": [first, second]});
}

fn replayed_from_a_collection(sink: &str, letters: &str) {
    let (ground, server) = (Ground::new(false), server(Profile::Journaled, &[]));
    put_in_the_way(&server);
    let path = ground.pipeline(
        "pipeline.yaml",
        &format!("guarantee: effectively-once\n{}", sink.replace("URI", &uri(&server))),
    );
    assert_eq!(ground.run(&path), 2);
    assert_eq!(documents(&server, letters, rawdoc! {}), 2);
    // What is not mended is a dead letter again, and stays one.
    assert_eq!(ground.replay(&[], &path), [2, 0, 2]);
    assert_eq!(documents(&server, letters, rawdoc! {}), 2);
    command(
        &server,
        rawdoc! {"delete": "events", "deletes": [{"q": {"_id": {"$in": ["a", "b"]}}, "limit": 0}]},
    );
    assert_eq!(ground.replay(&["--limit", "1"], &path), [1, 1, 0]);
    assert_eq!(documents(&server, letters, rawdoc! {}), 1);
    assert_eq!(ground.replay(&[], &path), [1, 1, 0]);
    assert_eq!(ground.replay(&[], &path), [0, 0, 0]);
    let (code, report) = audit(&path);
    assert_eq!(
        (code, sum(&report, "expected"), sum(&report, "found")),
        (Some(0), EVENTS, EVENTS),
        "{report}"
    );
    assert_eq!(documents(&server, letters, rawdoc! {}), 0);
    assert_eq!(documents(&server, "events", rawdoc! {"n": {"$in": [7, 1500]}}), 2);
}

#[test]
fn letters_of_a_collection_are_replayed_and_gone() {
    replayed_from_a_collection(
        "sink: {insert: {uri: 'URI', collection: test.events, form: json}}\n\
         dead_letters: {insert: {uri: 'URI', collection: test.dead, form: full}}\n",
        "dead",
    );
}

#[test]
fn letters_of_transactions_are_replayed_and_gone() {
    replayed_from_a_collection(
        "sink: {transactional: {uri: 'URI', collection: test.events, form: json, gather_wait: 100ms}}\n",
        "events_dead_letters",
    );
}

/// Letters that are no documents: a filter could not read some lines, until it was taken out.
fn replayed_from(letters: &str) {
    let (ground, server) = (Ground::new(true), server(Profile::Journaled, &[]));
    ground.topic("dead", 2);
    let rest = format!(
        "sink: {{insert: {{uri: '{}', collection: test.events, form: full}}}}\ndead_letters: {letters}\n",
        uri(&server)
    );
    let bad = ground.pipeline("bad.yaml", &format!("transforms: [{{filter: {{where: '.n >= 0'}}}}]\n{rest}"));
    let mended = ground.pipeline("mended.yaml", &rest);
    let buried = EVENTS / BAD_EVERY;
    assert_eq!(ground.run(&bad), buried);
    assert_eq!(sum(&audit(&mended).1, "missing"), buried);
    // What is not mended is written as a letter once more; the next replay reads it.
    assert_eq!(ground.replay(&["--limit", "3"], &bad), [3, 0, 3]);
    assert_eq!(ground.replay(&[], &mended), [buried, buried, 0]);
    assert_eq!(ground.replay(&[], &mended), [0, 0, 0]);
    let (code, report) = audit(&mended);
    assert_eq!((code, sum(&report, "found")), (Some(0), EVENTS), "{report}");
    let altered = |one: &Value| one["checksum"]["expected"] != one["checksum"]["found"];
    assert!(!report["partitions"].as_array().unwrap().iter().any(altered), "{report}");
    // Nothing of the letter is left in the events.
    assert_eq!(documents(&server, "events", rawdoc! {"headers.0": {"$exists": true}}), 0);
}

#[test]
fn letters_of_a_file_are_replayed_once() {
    replayed_from("{file: {path: dead.ndjson, form: whole}}");
}

#[test]
fn letters_of_a_topic_are_replayed_once() {
    replayed_from("{kafka: {brokers: 'BROKERS', topic: dead}}");
}

#[test]
fn letters_in_transactions_of_kafka_are_replayed_once() {
    let ground = Ground::new(true);
    [("copy", 3), ("dead", 1)].into_iter().for_each(|(name, partitions)| ground.topic(name, partitions));
    let rest = "guarantee: effectively-once\nsink: {kafka: {brokers: 'BROKERS', topic: copy, placing: same, \
                exactly_once: {transactional_id: t, dead_letters: dead, age_max: 100ms}}}\n";
    let bad = ground.pipeline("bad.yaml", &format!("transforms: [{{filter: {{where: '.n >= 0'}}}}]\n{rest}"));
    let mended = ground.pipeline("mended.yaml", rest);
    let buried = EVENTS / BAD_EVERY;
    assert_eq!(ground.run(&bad), buried);
    assert_eq!(ground.replay(&[], &mended), [buried, buried, 0]);
    assert_eq!(ground.replay(&[], &mended), [0, 0, 0]);
    let (mut found, cluster) = (Vec::new(), Cluster::at(ground.broker.bootstrap()));
    topic_scan::scan(&cluster, "copy", LONG, &mut |record| found.push(record.payload.unwrap().to_vec()))
        .unwrap();
    let lines = fs::read_to_string(ground.dir.path().join("in")).unwrap();
    let mut sent: Vec<_> = lines.lines().map(|line| line.as_bytes().to_vec()).collect();
    sent.sort_unstable();
    found.sort_unstable();
    assert_eq!(found.len(), sent.len());
    assert!(found == sent, "every line is there as it was, once");
}

#[test]
fn letters_that_cannot_be_replayed_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let check = |rest: &str, word: &str| {
        let text = format!(
            "source: {{file: {{path: in, format: ndjson}}}}\npositions: {{file: p}}\nsink: {{file: {{path: out}}}}\n{rest}"
        );
        let path = file(dir.path(), "pipeline.yaml", &text);
        let output = plimsoll_with(&["pipeline", "replay", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    };
    check("", "keeps no dead letters");
    check("dead_letters: {noop: {}}\n", "`noop` cannot be read again");
    check("dead_letters: {file: {path: dead}}\n", "form: whole");
    check("dead_letters: {file: {path: dead, form: whole}}\n", "no dead letters in");
    check(
        "dead_letters: {insert: {uri: 'mongodb://127.0.0.1:1', collection: a.b, form: json}}\n",
        "form: full",
    );
}
