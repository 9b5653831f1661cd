//! Tests suites of pipelines on real brokers and servers: filled topics, states before and after, and audits.

use std::fs;
use std::path::Path;
use std::time::Duration;

use plimsoll_host::Cache;
use plimsoll_kafka::Cluster;
use plimsoll_kafka::broker::{Broker, Settings};
use plimsoll_kafka::topic::{Admin, Topic};
use serde_json::{Value, json};

use super::{column, count, results, suite, whole, write};
use crate::program::{plimsoll_with, shared, stderr, stdout};

fn read(out: &Path, path: &str) -> Value {
    let file = out.join(path);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap()
}

/// The number of offsets of a topic in a state, over all its partitions; `None` if the topic is missing.
fn offsets(state: &Value, name: &str) -> Option<u64> {
    let topic = state["topics"].as_array().unwrap().iter().find(|topic| topic["name"] == name).unwrap();
    let extents = topic["partitions"].as_array().unwrap();
    let span = |it: &Value| it["end"].as_u64().unwrap() - it["begin"].as_u64().unwrap();
    topic["exists"].as_bool().unwrap().then(|| extents.iter().map(span).sum())
}

/// Checks the state of the collection with 20,000 events.
fn hold_kept(kept: &Value) {
    assert_eq!(
        (&kept["namespace"], &kept["documents"]),
        (&json!("plimsoll.pipeline_events"), &json!(20_000))
    );
    assert_eq!(kept["samples"].as_array().unwrap().len(), 2);
    let fields = kept["inventory"]["fields"].as_array().unwrap();
    assert!(fields.iter().any(|field| field["path"] == "payload"), "{fields:?}");
    assert!(kept["size"]["data_bytes"].as_u64().unwrap() > 20_000 * 64);
    assert_eq!(kept["indexes"].as_array().unwrap().len(), 1, "only the index of _id");
    let times = &kept["times"][0];
    assert!(times["path"] == "ts" && times["first"].as_str() <= times["last"].as_str(), "{kept}");
}

#[test]
fn pipelines_are_compared_on_their_own_topics_and_collections() {
    let dir = tempfile::tempdir().unwrap();
    let table = "# What does a stream cost?\n\
        name,pipeline,server,broker,fill,partitions,duration,warm_up,cache,server_cpus,client_cpus,threads,executor,in_flight,reference,reference_of\n\
        made-up,generator-to-noop,,,,,1s,0s,,,,1,pool,5000,,\n\
        out,kafka-to-noop,,installed,20_000 of 64B,2,,0s,,0,,,per_partition,,,\n\
        copied,kafka-to-kafka-once,,installed,20_000 of 64B,2,,2s,,,,,,,40_000,published of another machine\n\
        kept,kafka-to-mongodb,embedded,installed,20_000 of 64B,2,,2s,256MB,0,0,,,,,\n";
    let file = write(dir.path(), "streams.csv", table);
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = stderr(&made);
    assert_eq!(column(&out, "outcome"), ["completed"; 4], "{said}");
    assert_eq!(made.status.code(), Some(0), "{said}");
    let rows = results(&out);
    assert!(rows[0]["total"].parse::<u64>().unwrap() > 1000, "{:?}", rows[0]);
    assert_eq!(column(&out, "total")[1..], ["20000"; 3]);
    assert_eq!(
        column(&out, "lost"),
        ["", "", "0", "0"],
        "a topic of envelopes is read back like a collection"
    );
    assert!(
        rows.iter().all(|row| row["unit"] == "events" && row["rate_per_s"].parse::<f64>().unwrap() > 0.0)
    );
    let used = |row: usize| rows[row]["server_cpu_us"].parse::<f64>().unwrap_or_default() > 0.0;
    assert!(!used(0) && used(1) && used(3), "only the broker and the server use CPU");

    assert!(!out.join("001-made-up/before.json").exists(), "a row without servers has no states");
    let (before, after) = (read(&out, "003-copied/before.json"), read(&out, "003-copied/after.json"));
    assert_eq!((offsets(&before, "plimsoll-in"), offsets(&before, "plimsoll-out")), (None, None));
    assert_eq!(offsets(&after, "plimsoll-in"), Some(20_000));
    // Each transaction leaves a marker.
    assert!(offsets(&after, "plimsoll-out").unwrap() > 20_000, "{after}");
    assert_eq!(after["topics"][0]["partitions"].as_array().unwrap().len(), 2);

    let filled = read(&out, "004-kept/fill/pipeline.json");
    assert_eq!(filled["last"]["counts"]["written_events"], 20_000);
    let ran = read(&out, "004-kept/run/pipeline.json");
    assert_eq!((&ran["ended"], &ran["last"]["counts"]["replayed_events"]), (&json!("finished"), &json!(0)));
    let (before, after) = (read(&out, "004-kept/before.json"), read(&out, "004-kept/after.json"));
    assert_eq!(
        (&before["server"]["kind"], &before["collections"][0]["exists"]),
        (&json!("embedded"), &json!(false))
    );
    hold_kept(&after["collections"][0]);
    let warmed = read(&out, "004-kept/warm-up/pipeline.json");
    assert_eq!(warmed["name"], "kafka-to-mongodb-warm-up");
    for part in [
        "topic plimsoll-in: does not exist yet",
        "topic plimsoll-in: 20,000 offsets in 2 partitions",
        "dated from",
        "read back 20,000 documents: every event of the topic exists exactly once",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    let whole = whole(&out);
    let tests = whole["tests"].as_array().unwrap();
    let above: Vec<_> = tests[1..].iter().map(|test| test["delta"]["above"].as_str().unwrap()).collect();
    assert_eq!(above, ["made-up", "out", "copied"]);
    assert_eq!(tests[2]["reference"], json!({"rate_per_s": 40_000, "of": "published of another machine"}));
    assert!(
        stdout(&made).contains("Reference of copied: published of another machine."),
        "{}",
        stdout(&made)
    );
    let page = fs::read_to_string(out.join("suite.html")).unwrap();
    assert!(page.contains("× reference") && page.contains("004-kept/run/pipeline.json"));
}

#[test]
fn on_an_existing_broker_a_topic_is_refused_or_recreated_and_new_topics_are_removed() {
    let settings = Settings { heap_bytes_max: 256 << 20, ..Settings::default() };
    let broker = Broker::start(Cache::locate().unwrap().root(), settings).unwrap();
    let address = broker.bootstrap();
    let admin = Admin::of(&Cluster::at(&address), Duration::from_secs(60)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let table = "name,pipeline,fill,warm_up,repetitions,overrides,existing\n\
        twice,kafka-to-kafka,3_000 of 64B,0s,2,,\n\
        full,kafka-to-noop,3_000 of 64B,0s,1,source.kafka.topic=full,\n\
        anew,kafka-to-noop,2_000 of 64B,0s,1,source.kafka.topic=full,drop\n";
    let table = table
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{line},{}\n", if at == 0 { "broker" } else { address.as_str() }));
    let file = write(dir.path(), "stays.csv", &table.collect::<String>());
    let out = dir.path().join("out");
    // A foreign topic keeps its records until a row drops it, and its settings even then.
    let theirs = Topic::new("full", 3).with("retention.ms", "86400000");
    admin.create(&theirs).unwrap();
    let fill = json!({
        "guarantee": "at-most-once", "source": {"generator": {"events": 500}},
        "sink": {"kafka": {"brokers": address, "topic": "full"}},
    });
    let filling = write(dir.path(), "fill.yaml", &fill.to_string());
    let into = dir.path().join("filled");
    let filled =
        plimsoll_with(&["pipeline", "run", filling.to_str().unwrap(), "-q", "--out", into.to_str().unwrap()]);
    assert_eq!(filled.status.code(), Some(0), "{}", stderr(&filled));

    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = stderr(&made);
    assert_eq!(column(&out, "test"), ["twice", "full", "anew", "twice"]);
    assert_eq!(column(&out, "outcome"), ["completed", "refused", "completed", "completed"], "{said}");
    assert_eq!(column(&out, "total"), ["3000", "", "2000", "3000"], "{said}");
    for part in [
        "the topic full is not empty (500 offsets)",
        "topic full had 500 offsets and was recreated",
        "topic plimsoll-out was created by this test and is removed",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(admin.describe("plimsoll-in").is_err() && admin.describe("plimsoll-out").is_err());
    assert_eq!(admin.as_made("full").unwrap(), theirs);
    assert_eq!(admin.describe("full").unwrap().iter().map(|extent| extent.end).sum::<u64>(), 2_000);
}

#[test]
fn a_server_of_the_pipelines_file_is_inspected_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = format!(
        "tests:\n  - name: own\n    pipeline: generator-to-mongodb\n    duration: 1s\n    overrides: ['sink.insert.uri={}', \
         sink.insert.collection=plimsoll_suite.suite_streams_own]\n    repetitions: 2\n",
        shared()
    );
    let file = write(dir.path(), "own.yaml", &yaml);
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap(), "-q"]);
    assert_eq!(column(&out, "outcome"), ["completed"; 2], "{}", stderr(&made));
    let totals: u64 = column(&out, "total").iter().map(|total| total.parse::<u64>().unwrap()).sum();
    assert_eq!(count("suite_streams_own"), i64::try_from(totals).unwrap(), "no document is dropped");
    let after = read(&out, "001-own-r1/after.json");
    let own = &after["collections"][0];
    assert_eq!(own["namespace"], "plimsoll_suite.suite_streams_own");
    assert!(!own["times"].as_array().unwrap().is_empty(), "{own}");
    assert!(!out.join("001-own-r1/warm-up").exists(), "only the row's own events are sent");
}

#[test]
fn texts_of_a_stated_length_get_their_vectors() {
    let dir = tempfile::tempdir().unwrap();
    let table = "name,pipeline,server,broker,fill,warm_up\n\
        text,kafka-to-mongodb,embedded,installed,200 of 14 words,0s\n\
        vector,kafka-to-mongodb-vector,embedded,installed,200 of 14 words,0s\n";
    let file = write(dir.path(), "vectors.csv", table);
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!(column(&out, "outcome"), ["completed"; 2], "{}", stderr(&made));
    assert_eq!(column(&out, "total"), ["200"; 2]);
    assert_eq!(column(&out, "lost"), ["0"; 2], "vectors by source identify their events");
    let after = read(&out, "002-vector/after.json");
    let kept = &after["collections"][0];
    assert_eq!(kept["documents"], 200);
    let fields = kept["inventory"]["fields"].as_array().unwrap();
    assert!(fields.iter().any(|field| field["path"].as_str().unwrap().starts_with("vector")), "{fields:?}");
    assert_eq!(whole(&out)["tests"][1]["delta"]["above"], "text", "the last step is the cost of a vector");
}

#[test]
fn invalid_pipeline_rows_are_refused_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    for (columns, values, part) in [
        ("fill", "much", "line 2, fill: `much` is not a fill"),
        ("fill", "5 of 64B", "line 2, test a: fill: set `broker`"),
        ("broker", "installed", "set `fill`"),
        ("broker,partitions,fill", "installed,0,5 of 64B", "partitions 0: give a number from 1 to 64"),
        ("cache", "1GB", "cache: no MongoDB server is started for this test"),
        ("server_cpus", "0", "server_cpus: nothing is started for this test"),
        ("executor", "fixed", "executor fixed: write pool or per_partition"),
        ("executor,threads", "per_partition,2", "leave `threads` out"),
        ("overrides", "sink.noop.x=1", "unknown key `x`"),
        ("reference", "5", "give its source with `reference_of`"),
        ("brokers", "x", "did you mean `broker`?"),
    ] {
        let table = format!("name,pipeline,{columns}\na,kafka-to-noop,{values}\n");
        let file = write(dir.path(), "bad.csv", &table);
        let refused = plimsoll_with(&["suite", file.to_str().unwrap(), "--list"]);
        assert_eq!(refused.status.code(), Some(2), "{columns}: {}", stderr(&refused));
        let said = stderr(&refused);
        assert!(said.contains("bad.csv") && said.contains(part), "{part}: {said}");
    }
    let listed = plimsoll_with(&["suite", "pipeline", "--list", "--repetitions", "1"]);
    let shown = stdout(&listed);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    assert!(shown.contains("[8/8] mongodb-vector") && shown.contains("fill=10000 of 14 words"), "{shown}");
}
