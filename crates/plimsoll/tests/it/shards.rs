//! Runs the shards of a scenario as processes that begin at one moment, joins them, and checks the sums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use plimsoll_measure::clock;
use plimsoll_wire::{ConnectOptions, Connection};
use serde_json::Value;

use crate::program::{plimsoll, plimsoll_with, shared, stderr};

const SHARDS: u64 = 3;
/// The database of the tests' scenarios.
const DATABASE: &str = "plimsoll_test";
/// The time until the shards begin, in milliseconds: a busy machine gets more attempts and time.
const AHEAD_MS: [u64; 3] = [5_000, 45_000, 120_000];

/// Runs all shards of a scenario on the shared server at one moment; returns their directories.
pub fn shards(dir: &Path, file: &str) -> Vec<PathBuf> {
    shards_on(&shared(), dir, file, || drop_collection(file))
}

/// Runs them on another server; `clear` removes the documents of an attempt in which some shards were late.
pub fn shards_on(server: &str, dir: &Path, file: &str, clear: impl Fn()) -> Vec<PathBuf> {
    for ahead_ms in AHEAD_MS {
        let at = (clock::wall_ms() + ahead_ms).to_string();
        let out = |index: u64| dir.join(format!("shard-{index}-of-{SHARDS}-{ahead_ms}"));
        let start = |index: u64| {
            let shard = format!("{index}/{SHARDS}");
            let words = ["run", file, "--server", server, "--shard", &shard, "--start-at", &at, "--quiet"];
            let mut command = plimsoll();
            command.args(words).arg("--out").arg(out(index));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let begun: Vec<_> = (0..SHARDS).map(start).collect();
        let ended: Vec<Output> = begun.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        if ended.iter().any(|output| stderr(output).contains("the requested start passed")) {
            // Documents of a failed attempt would block the next attempt.
            clear();
            continue;
        }
        for (index, output) in (0..).zip(&ended) {
            let expected = if run_json(&out(index))["verdict"] == "fail" { 99 } else { 0 };
            assert_eq!(output.status.code(), Some(expected), "{}", stderr(output));
        }
        return (0..SHARDS).map(out).collect();
    }
    panic!("this machine is too busy to get ready within {AHEAD_MS:?} ms")
}

/// Runs a command in a database of the shared server.
pub fn ask_of(database: &str, command: &bson::RawDocument) -> bson::RawDocumentBuf {
    let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        connection.command(database, command).await.unwrap()
    })
}

/// The collection of a scenario file, without its database.
fn collection(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap();
    let name = text.lines().find_map(|line| line.strip_prefix("collection: plimsoll_test.")).unwrap();
    name.to_owned()
}

fn drop_collection(file: &str) {
    ask_of(DATABASE, &bson::rawdoc! {"drop": collection(file)});
}

/// The number of documents in the collection, by the server's own count.
pub fn count(file: &str) -> i64 {
    counted(file, bson::rawdoc! {"$count": "n"})
}

/// The field `n` of an aggregation over all documents.
pub fn counted(file: &str, stage: bson::RawDocumentBuf) -> i64 {
    let command = bson::rawdoc! {"aggregate": collection(file), "pipeline": [stage], "cursor": {}};
    let reply = ask_of(DATABASE, &command);
    let reply = bson::Document::try_from(reply.as_ref()).unwrap();
    let first = &reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0];
    let n = first.as_document().unwrap().get("n").unwrap();
    n.as_i64().or(n.as_i32().map(i64::from)).unwrap()
}

/// The summary in a run directory.
pub fn run_json(dir: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(dir.join("run.json")).unwrap()).unwrap()
}

/// Joins shards into `out`.
pub fn merge(shards: &[PathBuf], out: &Path) -> Output {
    let mut words: Vec<&str> = vec!["merge"];
    words.extend(shards.iter().map(|shard| shard.to_str().unwrap()));
    words.extend(["--out", out.to_str().unwrap(), "--json"]);
    plimsoll_with(&words)
}

/// A number of a run, by its path.
pub fn number(run: &Value, pointer: &str) -> u64 {
    run.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {run}"))
}

/// Checks that every counter and every histogram count of a joined run is the sum of its shards'.
pub fn counters_add_up(run: &Value, parts: &[Value]) {
    let sum_is = |pointer: &str| {
        let sum: u64 = parts.iter().map(|part| number(part, pointer)).sum();
        assert_eq!(number(run, pointer), sum, "{pointer}");
    };
    for name in run["operations"].as_object().unwrap().keys() {
        for counter in [
            "count",
            "documents",
            "due",
            "skipped",
            "retries",
            "bytes_sent",
            "bytes_received",
            "response_ns/count",
            "wake_ns/count",
            "failed_response_ns/count",
        ] {
            sum_is(&format!("/operations/{name}/{counter}"));
        }
    }
    (0..run["phases"].as_array().unwrap().len()).for_each(|at| sum_is(&format!("/phases/{at}/operations")));
    // A service has no integrity.
    for (kind, found) in run["integrity"].as_object().into_iter().flatten() {
        // Each shard counts all foreign documents.
        if found.is_u64() && kind != "foreign" {
            sum_is(&format!("/integrity/{kind}"));
        }
    }
    ["/client/workers", "/client/connections", "/client/reconnects"].into_iter().for_each(sum_is);
    for (name, operation) in run["operations"].as_object().unwrap() {
        let of = |run: &Value, class: &str| run["operations"][name]["errors"][class].as_u64().unwrap_or(0);
        for class in operation["errors"].as_object().unwrap().keys() {
            let sum: u64 = parts.iter().map(|part| of(part, class)).sum();
            assert_eq!(of(run, class), sum, "{name}: {class}");
        }
    }
    for name in run["operations"].as_object().unwrap().keys() {
        let max = |run: &Value| run["operations"][name]["response_ns"]["max"].as_u64();
        assert_eq!(max(run), parts.iter().filter_map(max).max(), "of the histograms of {name}");
    }
}
