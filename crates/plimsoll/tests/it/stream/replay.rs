//! Tests replays: some events are refused, the cause is removed, their letters are replayed, and the audit is
//! clean.

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
/// The distance between invalid lines, if any.
const BAD_EVERY: u64 = 100;
const LONG: Duration = Duration::from_secs(60);

/// A broker with a topic of lines.
struct Fixture {
    dir: TempDir,
    broker: Broker,
}

impl Fixture {
    /// Creates lines that are numbers as JSON; with `bad` some are invalid.
    fn new(bad: bool) -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap(), broker: broker() };
        let line = |n: u64| match bad && n % BAD_EVERY == 7 {
            true => format!("no json {n}\n"),
            false => format!("{{\"n\":{n}}}\n"),
        };
        fs::write(fixture.dir.path().join("in"), (0..EVENTS).map(line).collect::<String>()).unwrap();
        fixture.topic("lines", 3);
        let brokers = fixture.broker.bootstrap();
        let fill = fixture.file(
            "fill.yaml",
            &format!(
                "guarantee: at-most-once\nsource: {{file: {{path: in, format: ndjson}}}}\n\
                 sink: {{kafka: {{brokers: '{brokers}', topic: lines}}}}\npositions: {{file: filled}}\n"
            ),
        );
        assert_eq!(fixture.counts(&["run"], &fill)["written_events"], EVENTS);
        fixture
    }

    fn topic(&self, name: &str, partitions: u16) {
        let cluster = Cluster::at(self.broker.bootstrap());
        Admin::of(&cluster, LONG).unwrap().reset(&Topic::new(name, partitions)).unwrap();
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        file(self.dir.path(), name, text)
    }

    /// Writes the file of a pipeline from the topic.
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

    /// Runs the pipeline until every event is settled; returns the number of dead letters.
    fn run(&self, path: &Path) -> u64 {
        let out = self.out();
        let mut child = start(path, &out);
        let settled = || count(&out, "written_events") + count(&out, "dead_letter_events");
        until("everything is settled", &mut [&mut child], || settled() == EVENTS);
        assert_eq!(terminate(child).code(), Some(0));
        count(&out, "dead_letter_events")
    }

    /// Runs a subcommand on a pipeline to its end; returns its counts.
    fn counts(&self, words: &[&str], path: &Path) -> Value {
        let (out, path) = (self.out(), path.to_str().unwrap());
        let fixed =
            [&["pipeline"][..], words, &[path, "--json", "-q", "--out", out.to_str().unwrap()]].concat();
        let output = plimsoll_with(&fixed);
        let counts = json(&output)["last"]["counts"].clone();
        // A replay whose letters are all rejected again fails.
        let fails = counts["written_events"] == 0 && counts["dead_letter_events"] != 0;
        assert_eq!(output.status.code(), Some(if fails { 99 } else { 0 }), "{counts}: {}", stderr(&output));
        counts
    }

    /// Replays; returns the numbers of letters read, written and rejected again.
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

/// Inserts foreign documents with two of the unique numbers.
fn put_in_the_way(server: &Server) {
    let key = rawdoc! {"key": {"n": 1}, "name": "n", "unique": true};
    command(server, rawdoc! {"createIndexes": "events", "indexes": [key]});
    let strangers = [rawdoc! {"_id": "a", "n": 7}, rawdoc! {"_id": "b", "n": 1500}];
    let [first, second] = strangers;
    command(server, rawdoc! {"insert": "events", "documents": [first, second]});
}

fn replayed_from_a_collection(sink: &str, letters: &str) {
    let (fixture, server) = (Fixture::new(false), server(Profile::Journaled, &[]));
    put_in_the_way(&server);
    let path = fixture.pipeline(
        "pipeline.yaml",
        &format!("guarantee: effectively-once\n{}", sink.replace("URI", &uri(&server))),
    );
    assert_eq!(fixture.run(&path), 2);
    assert_eq!(documents(&server, letters, rawdoc! {}), 2);
    // A letter with a remaining cause becomes a dead letter again.
    assert_eq!(fixture.replay(&[], &path), [2, 0, 2]);
    assert_eq!(documents(&server, letters, rawdoc! {}), 2);
    command(
        &server,
        rawdoc! {"delete": "events", "deletes": [{"q": {"_id": {"$in": ["a", "b"]}}, "limit": 0}]},
    );
    assert_eq!(fixture.replay(&["--limit", "1"], &path), [1, 1, 0]);
    assert_eq!(documents(&server, letters, rawdoc! {}), 1);
    assert_eq!(fixture.replay(&[], &path), [1, 1, 0]);
    assert_eq!(fixture.replay(&[], &path), [0, 0, 0]);
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
fn letters_of_a_collection_are_replayed_and_removed() {
    replayed_from_a_collection(
        "sink: {insert: {uri: 'URI', collection: test.events, form: json}}\n\
         dead_letters: {insert: {uri: 'URI', collection: test.dead, form: full}}\n",
        "dead",
    );
}

#[test]
fn letters_of_transactions_are_replayed_and_removed() {
    replayed_from_a_collection(
        "sink: {transactional: {uri: 'URI', collection: test.events, form: json, gather_wait: 100ms}}\n",
        "events_dead_letters",
    );
}

/// Replays letters that are not documents: a filter rejected some lines, until it was removed.
fn replayed_from(letters: &str) {
    let (fixture, server) = (Fixture::new(true), server(Profile::Journaled, &[]));
    fixture.topic("dead", 2);
    let rest = format!(
        "sink: {{insert: {{uri: '{}', collection: test.events, form: full}}}}\ndead_letters: {letters}\n",
        uri(&server)
    );
    let bad =
        fixture.pipeline("bad.yaml", &format!("transforms: [{{filter: {{where: '.n >= 0'}}}}]\n{rest}"));
    let mended = fixture.pipeline("mended.yaml", &rest);
    let buried = EVENTS / BAD_EVERY;
    assert_eq!(fixture.run(&bad), buried);
    assert_eq!(sum(&audit(&mended).1, "missing"), buried);
    // A letter with a remaining cause is written again; the next replay reads it.
    assert_eq!(fixture.replay(&["--limit", "3"], &bad), [3, 0, 3]);
    assert_eq!(fixture.replay(&[], &mended), [buried, buried, 0]);
    assert_eq!(fixture.replay(&[], &mended), [0, 0, 0]);
    let (code, report) = audit(&mended);
    assert_eq!((code, sum(&report, "found")), (Some(0), EVENTS), "{report}");
    let altered = |one: &Value| one["checksum"]["expected"] != one["checksum"]["found"];
    assert!(!report["partitions"].as_array().unwrap().iter().any(altered), "{report}");
    // The events contain no headers of the letters.
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
    let fixture = Fixture::new(true);
    [("copy", 3), ("dead", 1)].into_iter().for_each(|(name, partitions)| fixture.topic(name, partitions));
    let rest = "guarantee: effectively-once\nsink: {kafka: {brokers: 'BROKERS', topic: copy, placing: same, \
                exactly_once: {transactional_id: t, dead_letters: dead, age_max: 100ms}}}\n";
    let bad =
        fixture.pipeline("bad.yaml", &format!("transforms: [{{filter: {{where: '.n >= 0'}}}}]\n{rest}"));
    let mended = fixture.pipeline("mended.yaml", rest);
    let buried = EVENTS / BAD_EVERY;
    assert_eq!(fixture.run(&bad), buried);
    assert_eq!(fixture.replay(&[], &mended), [buried, buried, 0]);
    assert_eq!(fixture.replay(&[], &mended), [0, 0, 0]);
    let (mut found, cluster) = (Vec::new(), Cluster::at(fixture.broker.bootstrap()));
    topic_scan::scan(&cluster, "copy", LONG, &mut |record| found.push(record.payload.unwrap().to_vec()))
        .unwrap();
    let lines = fs::read_to_string(fixture.dir.path().join("in")).unwrap();
    let mut sent: Vec<_> = lines.lines().map(|line| line.as_bytes().to_vec()).collect();
    sent.sort_unstable();
    found.sort_unstable();
    assert_eq!(found.len(), sent.len());
    assert!(found == sent, "every line arrives unchanged, once");
}

#[test]
fn unreplayable_letters_are_refused_with_the_remedy() {
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
    check("dead_letters: {file: {path: dead, form: whole}}\n", "no dead letters exist in");
    check(
        "dead_letters: {insert: {uri: 'mongodb://127.0.0.1:1', collection: a.b, form: json}}\n",
        "form: full",
    );
}
