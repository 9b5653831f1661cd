//! Suites whose tests run pipelines.

use std::fs;

use super::{results, suite, whole, write};
use crate::program::stderr;

#[test]
fn a_row_may_run_a_pipeline_to_the_end_of_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..1000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    write(dir.path(), "in.ndjson", &lines);
    let pipeline = "source: {file: {path: in.ndjson, format: ndjson}}\nsink: {file: {path: out.ndjson}}\n\
                    dead_letters: {file: {path: dead.ndjson, form: whole}}\npositions: {file: positions.json}\n";
    write(dir.path(), "moves.yaml", pipeline);
    let rows =
        "name,pipeline,overrides\nmoves,moves.yaml,name=moved\nfails,moves.yaml,guarantee=effectively-once\n";
    let file = write(dir.path(), "moves.csv", rows);
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap(), "-q"]);
    let rows = results(&out);
    let of = |row: usize, column: &str| rows[row][column].clone();
    assert_eq!(
        (of(0, "outcome"), of(1, "outcome")),
        ("completed".into(), "failed".into()),
        "{}",
        stderr(&made)
    );
    assert_ne!(made.status.code(), Some(0));
    let columns = ["kind", "what", "unit", "total", "errors", "lost"].map(|column| of(0, column));
    assert_eq!(columns, ["pipeline", "moved", "events", "1000", "0", ""]);
    assert!(of(0, "rate_per_s").parse::<f64>().unwrap() > 0.0);
    assert_eq!(fs::read_to_string(dir.path().join("out.ndjson")).unwrap().lines().count(), 1000);
    assert_eq!(whole(&out)["tests"][0]["figures"]["unit"], "events");
    let page = fs::read_to_string(out.join("suite.html")).unwrap();
    assert!(page.contains("001-moves/run/pipeline.json"));
}
