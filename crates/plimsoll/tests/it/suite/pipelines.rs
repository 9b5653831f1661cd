//! Tests suites whose tests run pipelines.

use std::fs;

use super::{column, command, results, suite, whole, write};
use crate::program::{plimsoll_with, shared, stderr, stdout};

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

#[test]
fn a_row_whose_events_all_become_dead_letters_is_failed() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "in.ndjson", "no json\nnor this\n");
    let pipeline = "source: {file: {path: in.ndjson, format: ndjson}}\ntransforms: [filter: {where: '.n > 0'}]\nsink: {noop: {}}\n\
                    dead_letters: {file: {path: dead.ndjson, form: whole}}\npositions: {file: positions.json}\n";
    write(dir.path(), "dead.yaml", pipeline);
    let file = write(dir.path(), "dead.csv", "name,pipeline\ndead,dead.yaml\n");
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap(), "-q"]);
    assert_eq!(column(&out, "outcome"), ["failed"], "{}", stderr(&made));
    assert_eq!((column(&out, "exit")[0].as_str(), made.status.code()), ("99", Some(99)));
    assert!(column(&out, "reason")[0].contains("no event succeeded"), "{:?}", column(&out, "reason"));
}

/// Only the process of such a run connects to the server, and its messages are in its log.
#[test]
fn a_suite_names_the_wait_for_a_late_server_as_its_run_does() {
    let dir = tempfile::tempdir().unwrap();
    let uri = |port: u16| format!("mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=1100");
    let source = format!("source: {{change_stream: {{uri: '{}', watch: d.c, start: now}}}}", uri(9));
    write(dir.path(), "source.yaml", &format!("{source}\nsink: {{noop: {{}}}}\npositions: {{file: p}}\n"));
    let positions = format!("positions: {{collection: {{uri: '{}'}}}}", uri(11));
    let text = format!("source: {{file: {{path: in, format: ndjson}}}}\nsink: {{noop: {{}}}}\n{positions}\n");
    write(dir.path(), "positions.yaml", &text);
    write(dir.path(), "in", "");
    let rows = format!(
        "name,pipeline,scenario,server\nsource,source.yaml,,\npositions,positions.yaml,,\nservice,,baseline-short,{}\n",
        uri(13)
    );
    let file = write(dir.path(), "late.csv", &rows);
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = stderr(&made);
    assert_eq!(column(&out, "outcome"), ["refused", "refused", "refused"], "{said}");
    assert_eq!(made.status.code(), Some(3), "{said}");
    for port in [9, 11, 13] {
        for part in [
            format!("waiting for 127.0.0.1:{port}: no answer yet, up to 1.1 s (serverSelectionTimeoutMS)"),
            format!(
                "after a wait of 1.1 s (serverSelectionTimeoutMS): 127.0.0.1:{port} refused the connection"
            ),
        ] {
            assert_eq!(said.matches(&part).count(), 1, "{part} is not once in {said}");
        }
    }
}

/// The processes of the runs name them in their logs alone.
#[test]
fn a_suite_names_options_without_effect_in_its_output_and_in_its_result() {
    let dir = tempfile::tempdir().unwrap();
    let uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=1100&fooBar=1";
    let source = format!("source: {{change_stream: {{uri: '{uri}', watch: d.c, start: now}}}}");
    write(dir.path(), "source.yaml", &format!("{source}\nsink: {{noop: {{}}}}\npositions: {{file: p}}\n"));
    let rows = format!("name,pipeline,scenario,server\nstream,source.yaml,,\nload,,single-insert,{uri}\n");
    let file = write(dir.path(), "options.csv", &rows);
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = stderr(&made);
    let warning = "the option `fooBar` of the address is unknown and has no effect";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    for (index, test) in ["stream", "load"].into_iter().enumerate() {
        let kept = whole(&out)["tests"][index]["warnings"].clone();
        assert!(kept.as_array().is_some_and(|kept| kept.iter().any(|one| one == warning)), "{kept}");
        let summary = stdout(&made).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(summary.contains(&format!("{test}: {warning}")), "{summary}");
    }
    let page = fs::read_to_string(out.join("suite.html")).unwrap();
    assert!(page.contains(&format!("stream: {warning}")), "{page}");
}

#[test]
fn a_pipeline_without_progress_is_ended_as_hung_and_the_next_row_runs() {
    let dir = tempfile::tempdir().unwrap();
    command(&bson::rawdoc! {"create": "suite_idle"});
    let idle = format!(
        "source: {{change_stream: {{uri: '{}', watch: plimsoll_suite.suite_idle, start: now}}}}\nsink: {{file: {{path: idle.ndjson}}}}\n\
         positions: {{file: idle}}\n",
        shared()
    );
    write(dir.path(), "idle.yaml", &idle);
    let ends =
        "guarantee: at-most-once\nsource: {generator: {events: 1000, payload: 100B}}\nsink: {noop: {}}\n";
    write(dir.path(), "ends.yaml", ends);
    let file = write(dir.path(), "watched.csv", "name,pipeline\nidle,idle.yaml\nends,ends.yaml\n");
    let out = dir.path().join("out");
    let (file, to) = (file.to_str().unwrap(), out.to_str().unwrap());
    let made = plimsoll_with(&["suite", file, "--out", to, "--watch", "1s", "--hung-after", "5"]);
    let said = stderr(&made);
    assert_eq!(column(&out, "outcome"), ["hung", "completed"], "{said}");
    assert_eq!((made.status.code(), column(&out, "total")[1].as_str()), (Some(3), "1000"), "{said}");
    assert!(said.contains("no progress at 3 checks") && said.contains("no progress for 5"), "{said}");
}
