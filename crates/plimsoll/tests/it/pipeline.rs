//! Tests pipelines as a user runs them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use plimsoll_host::Profile;

use crate::dashboard::documented;
use crate::program::{json, plimsoll, plimsoll_with, server, shared, stderr, stdout, uri};
use crate::suite::command;

fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn run(dir: &Path, text: &str) -> serde_json::Value {
    let path = file(dir, "pipeline.yaml", text);
    let out = dir.join("run");
    let output = plimsoll_with(&[
        "pipeline",
        "run",
        path.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--json",
        "-q",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    json(&output)
}

#[test]
fn events_are_filtered_mapped_and_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..1000).map(|n| format!("{{\"n\":{n},\"old\":true}}\n")).collect();
    file(dir.path(), "in.ndjson", &(lines + "no json\n"));
    let stream = run(
        dir.path(),
        "source: {file: {path: in.ndjson, format: ndjson}}\n\
         security: {rules: [{allow: {topic: '*.ndjson'}}]}\n\
         transforms:\n  - filter: {where: '.n % 2 == 0'}\n  - map: {project: [n], set: {half: '.n / 2'}}\n\
         sink: {file: {path: out.ndjson}}\n\
         dead_letters: {file: {path: dead.ndjson, form: whole}}\n\
         positions: {file: positions.json}\n",
    );
    let count = |word: &str| stream["last"]["counts"][word].as_u64().unwrap();
    assert_eq!((count("read_events"), count("filtered_events")), (1001, 500));
    assert_eq!((count("written_events"), count("dead_letter_events")), (500, 1));
    assert_eq!((count("security_decisions"), count("security_denials")), (1001, 0));
    let mut written: Vec<_> =
        fs::read_to_string(dir.path().join("out.ndjson")).unwrap().lines().map(str::to_owned).collect();
    written
        .sort_unstable_by_key(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["n"].as_u64());
    assert_eq!(written[3], r#"{"n":6,"half":3.0}"#);
    let dead = fs::read_to_string(dir.path().join("dead.ndjson")).unwrap();
    assert!(
        dead.contains("\"payload\":\"no json\"") && dead.contains("\"plimsoll-stage\":\"filter\""),
        "{dead}"
    );
    let delivery = stream["last"]["stages"].as_array().unwrap().last().unwrap();
    assert_eq!((delivery["name"].as_str(), delivery["events"].as_u64()), (Some("delivery"), Some(500)));
}

#[test]
fn a_pipeline_whose_events_all_become_dead_letters_fails() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "in.ndjson", "no json\nnor this\n");
    let text = "source: {file: {path: in.ndjson, format: ndjson}}\ntransforms: [filter: {where: '.n > 0'}]\nsink: {noop: {}}\n\
                dead_letters: {file: {path: dead.ndjson, form: whole}}\npositions: {file: positions.json}\n";
    let path = file(dir.path(), "pipeline.yaml", text);
    let out = dir.path().join("run");
    let output = plimsoll_with(&["pipeline", "run", path.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    let reason = "no event succeeded: all 2 became dead letters";
    assert!(stderr(&output).contains(&format!("plimsoll: {reason}")), "{}", stderr(&output));
    assert!(stdout(&output).contains("FAIL, exhausted after"), "{}", stdout(&output));
    let kept = fs::read_to_string(out.join("pipeline.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert!(kept["failure"].as_str().is_some_and(|failure| failure.starts_with(reason)), "{kept}");
}

#[test]
fn a_change_stream_without_a_stored_position_says_where_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    command(&bson::rawdoc! {"create": "starts_now"});
    let text = format!(
        "source: {{change_stream: {{uri: '{}', watch: plimsoll_suite.starts_now, start: now}}}}\nsink: {{file: {{path: out.ndjson}}}}\n\
         positions: {{file: positions.json}}\n",
        shared()
    );
    let path = file(dir.path(), "pipeline.yaml", &text);
    let note = "no stored position of `plimsoll_suite.starts_now`: starts with the next change";
    for (name, notes) in [("first", 1), ("again", 0)] {
        let out = dir.path().join(name);
        let fixed = ["pipeline", "run", path.to_str().unwrap(), "--for", "2s"];
        let output = plimsoll_with(&[&fixed[..], &["--out", out.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stderr(&output).matches(note).count(), notes, "{name}: {}", stderr(&output));
        let kept = fs::read_to_string(out.join("pipeline.json")).unwrap();
        assert_eq!(kept.matches(note).count(), notes, "{name}: {kept}");
    }
}

#[test]
fn a_filtered_copy_has_exactly_the_documents_that_match() {
    let dir = tempfile::tempdir().unwrap();
    command(&bson::rawdoc! {"create": "filtered"});
    let text = format!(
        "guarantee: effectively-once\nsource: {{change_stream: {{uri: '{0}', watch: plimsoll_suite.filtered, start: now}}}}\n\
         transforms: [{{filter: {{where: '.status == 1', format: bson}}}}]\n\
         sink: {{keyed: {{uri: '{0}', collection: plimsoll_suite.filtered_copy}}}}\npositions: {{file: positions.json}}\n",
        shared()
    );
    let path = file(dir.path(), "pipeline.yaml", &text);
    let run = |name: &str, end: [&str; 2]| {
        let out = dir.path().join(name);
        let fixed = ["pipeline", "run", path.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = plimsoll_with(&[&fixed[..], &end].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    // Stores the start of the stream.
    run("first", ["--for", "1s"]);
    let document = |id: i32, status: i32| bson::rawdoc! {"_id": id, "status": status};
    command(
        &bson::rawdoc! {"insert": "filtered", "documents": [document(1, 1), document(2, 1), document(3, 1), document(4, 2)]},
    );
    run("inserts", ["--events", "4"]);
    command(
        &bson::rawdoc! {"update": "filtered", "updates": [{"q": {"_id": 1}, "u": {"$set": {"status": 2}}}]},
    );
    command(&bson::rawdoc! {"delete": "filtered", "deletes": [{"q": {"_id": 2}, "limit": 1}]});
    run("changes", ["--events", "2"]);
    let found = command(&bson::rawdoc! {"find": "filtered_copy"});
    let found = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(*found, [bson::Bson::from(bson::doc! {"_id": 3, "status": 1})]);
}

#[test]
fn a_combination_that_loses_changes_is_refused_before_a_server_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |command: &str, rest: &str| {
        let text = format!(
            "source: {{change_stream: {{uri: 'mongodb://127.0.0.1:1', watch: d.c}}}}\npositions: {{file: p}}\n\
             sink: {{keyed: {{uri: 'mongodb://127.0.0.1:1', collection: d.copy}}}}\n{rest}"
        );
        let path = file(dir.path(), "pipeline.yaml", &text);
        let output = plimsoll_with(&["pipeline", command, path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    let letters = "dead_letters: {keyed: {uri: 'mongodb://127.0.0.1:1', collection: d.dead}}\n";
    assert!(refused("check", letters).contains("dead letters would replace and delete each other"));
    assert!(refused("run", "transforms: [{sample: {share: 0.5}}]\n").contains("`sample` drops changes"));
    let whole = "dead_letters: {file: {path: dead, form: whole}}\n";
    assert!(refused("replay", whole).contains("older than the document in the copy"));
}

#[test]
fn the_summary_fits_the_screen_and_ends_with_its_data_and_the_next_command() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "in.ndjson", "{\"n\":1}\nno json\n");
    let path = file(
        dir.path(),
        "pipeline.yaml",
        "source: {file: {path: in.ndjson, format: ndjson}}\ntransforms: [filter: {where: '.n > 0'}]\nsink: {noop: {}}\n\
         dead_letters: {file: {path: dead.ndjson, form: whole}}\npositions: {file: positions.json}\n",
    );
    let (path, out) = (path.to_str().unwrap(), dir.path().join("run"));
    let out = out.to_str().unwrap();
    let mut command = plimsoll();
    command.args(["pipeline", "run", path, "--out", out, "--set", "in_flight.events=100"]);
    let output = command.env("COLUMNS", "60").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let end = format!(
        "\n\nData  {out}/pipeline.json\nNext  plimsoll pipeline replay {path} --set in_flight.events=100\n"
    );
    let body = text.strip_suffix(&end).unwrap_or_else(|| panic!("{text}"));
    assert!(body.lines().all(|line| line.chars().count() <= 60), "{text}");
    assert!(body.starts_with("pipeline\nfile → filter → noop · at-least-once\n"), "{text}");
}

/// Starts a pipeline with endless events; returns the address of its metrics.
fn endless(dir: &Path) -> (Child, String, BufReader<ChildStderr>) {
    let path = file(
        dir,
        "endless.yaml",
        "guarantee: at-most-once\nsource: {generator: {rate: 2000, payload: 100B}}\nsecurity: {otherwise: allow}\nsink: {noop: {}}\n",
    );
    listening(&path, &dir.join("run"), "127.0.0.1:0")
}

/// Starts a pipeline that serves its metrics; returns their address.
pub fn listening(path: &Path, out: &Path, listen: &str) -> (Child, String, BufReader<ChildStderr>) {
    let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    let args = ["pipeline", "run", path, "--out", out, "--listen", listen];
    let mut child = plimsoll().args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("metrics at http://") {
        line.clear();
        assert!(
            said.read_line(&mut line).unwrap() > 0,
            "the pipeline ended without the address of its metrics"
        );
    }
    let address =
        line.trim().trim_start_matches("metrics at http://").trim_end_matches("/metrics").to_owned();
    (child, address, said)
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_running_pipeline_serves_its_metrics_and_drains_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address, mut said) = endless(dir.path());
    // The line of the first second is available with its metrics.
    let mut line = String::new();
    while !line.contains("integrity") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0);
    }
    let metrics = get(&address, "/metrics");
    let read = metrics.lines().find(|line| line.starts_with("plimsoll_pipeline_read_events_total{")).unwrap();
    assert!(read.contains("pipeline=\"endless\"") && !read.ends_with("} 0"), "{read}");
    let printed: BTreeSet<_> = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let documented = documented();
    let documented: BTreeSet<_> = documented.iter().map(String::as_str).collect();
    assert_eq!(printed, documented, "the documented list is complete");
    assert!(get(&address, "/healthz").ends_with("ok\n"));
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("run/pipeline.json")).unwrap()).unwrap();
    assert_eq!(summary["ended"], "drained");
    let counts = &summary["last"]["counts"];
    assert_eq!(counts["read_events"], counts["written_events"]);
    assert_eq!(counts["admitted_events"], counts["acknowledged_events"], "every event is settled at the end");
}

#[test]
fn a_paused_process_reports_no_empty_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _, mut said) = endless(dir.path());
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let signal = |name: &str| {
        Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    };
    let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
    pause(1500);
    signal("-STOP");
    pause(3500);
    signal("-CONT");
    pause(2500);
    signal("-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let seconds = fs::read_to_string(dir.path().join("run/seconds.ndjson")).unwrap();
    let elapsed =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["elapsed_ns"].as_u64();
    let printed: Vec<_> = seconds.lines().map(|line| elapsed(line).unwrap()).collect();
    // The last line is written at the end of the run, at any fraction of a second.
    let between: Vec<_> = printed[..printed.len() - 1].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(between.iter().any(|ns| *ns > 3_000_000_000), "the process was paused: {printed:?}");
    assert!(between.iter().all(|ns| *ns > 500_000_000), "{printed:?}");
}

/// The driver resumes the stream by itself, and says nothing while it looks for the server.
#[test]
fn a_change_stream_that_loses_its_server_names_its_wait_and_the_option_that_limits_it() {
    let dir = tempfile::tempdir().unwrap();
    for (options, limit) in [
        ("&serverSelectionTimeoutMS=2500", "2.5 s (serverSelectionTimeoutMS)"),
        ("", "2 s (the default of serverSelectionTimeoutMS)"),
    ] {
        let mut server = server(Profile::Relaxed, &[]);
        let (address, uri) = (server.address(), format!("{}{options}", uri(&server)));
        let text = format!(
            "source: {{change_stream: {{uri: '{uri}', watch: d.c, start: now}}}}\npositions: {{file: positions{}}}\nsink: {{noop: {{}}}}\n",
            options.len()
        );
        file(dir.path(), "lost.yaml", &text);
        let args = ["pipeline", "run", "lost.yaml", "--for", "60s"];
        let mut child = plimsoll().current_dir(dir.path()).args(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut until = |part: &str| {
            let mut said = Vec::new();
            while !said.last().is_some_and(|line: &String| line.contains(part)) {
                said.push(lines.next().unwrap_or_else(|| panic!("{part}: {said:?}")));
            }
        };
        until("starts with the next change");
        server.kill().unwrap();
        until(&format!("waiting for {address}: no answer yet, up to {limit}; retrying"));
        until(&format!(
            "the changes cannot be read: after a wait of {limit}: {address} refused the connection"
        ));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_pipeline_killed_at_any_moment_loses_nothing() {
    const LINES: usize = 60_000;
    const KILLS: u32 = 8;
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..LINES).map(|n| format!("line {n}\n")).collect();
    file(dir.path(), "in", &lines);
    let path = file(
        dir.path(),
        "pipeline.yaml",
        "source: {file: {path: in, format: ndjson}}\nsink: {file: {path: out}}\npositions: {file: positions}\n\
         in_flight: {events: 200, batch: 20}\ncommit_every: 5ms\n",
    );
    let mut random = seed | 1;
    for kill in 0..KILLS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let out = dir.path().join(format!("run-{kill}"));
        let args = ["pipeline", "run", path.to_str().unwrap(), "--out", out.to_str().unwrap(), "-q"];
        let mut child = plimsoll().args(args).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(30 + (random >> 33) % 200));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = plimsoll_with(&[
        "pipeline",
        "run",
        path.to_str().unwrap(),
        "--out",
        dir.path().join("last").to_str().unwrap(),
        "-q",
    ]);
    assert_eq!(last.status.code(), Some(0), "{}", stderr(&last));
    let text = fs::read_to_string(dir.path().join("out")).unwrap();
    // A kill may tear the last line; the whole line follows it.
    let written: BTreeSet<_> = text.lines().collect();
    let missing: Vec<_> = lines.lines().filter(|line| !written.contains(line)).collect();
    assert!(
        missing.is_empty(),
        "seed {seed}: {} lines are missing, first {:?}",
        missing.len(),
        missing.first()
    );
}

#[test]
fn invalid_pipelines_are_refused_before_an_event_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let check = |text: &str, expected: &[&str]| {
        let path = file(dir.path(), "bad.yaml", text);
        let output = plimsoll_with(&["pipeline", "check", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{text}: {}", stderr(&output));
        let words = stderr(&output);
        assert!(expected.iter().all(|word| words.contains(word)), "{text}: {words}");
    };
    check("source: {generatr: {}}\nsink: {noop: {}}\n", &["generatr", "did you mean `generator`?"]);
    check("source: {generator: {}}\nsink: {noop: {}}\n", &["at-least-once", "at-most-once"]);
    check(
        "source: {generator: {}}\nsink: {noop: {}}\ntransforms: [{filtr: {where: .a}}]\n",
        &["did you mean `filter`?"],
    );
    check(
        "source: {generator: {}}\nguarantee: at-most-once\nsink: {noop: {}}\ntransforms: [{filter: {where: '.a |'}}]\n",
        &["transforms.0", "jq"],
    );
    check(
        "source: {file: {path: x, format: ndjson}}\npositions: {file: p}\nguarantee: effectively-once\nsink: {file: {path: y}}\n",
        &["effectively-once", "identity: source"],
    );
    let missing = plimsoll_with(&["pipeline", "run", "nowhere.yaml"]);
    assert!(stderr(&missing).contains("no pipeline `nowhere.yaml` exists"), "{}", stderr(&missing));
}

#[test]
fn a_fixed_principal_of_an_unauthenticated_source_causes_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let said = |source: &str| {
        let text = format!(
            "source: {source}\nsecurity: {{principal: {{fixed: billing}}, otherwise: allow}}\n\
             sink: {{file: {{path: out}}}}\npositions: {{file: positions}}\n"
        );
        let path = file(dir.path(), "fixed.yaml", &text);
        let output = plimsoll_with(&["pipeline", "check", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{source}: {}", stderr(&output));
        stderr(&output)
    };
    let words = said("{scan: {uri: 'mongodb://localhost', collection: d.c}}");
    assert!(words.contains("`billing`") && words.contains("a user and a password"), "{words}");
    for checked in
        ["{scan: {uri: 'mongodb://ann:x@localhost', collection: d.c}}", "{file: {path: in, format: ndjson}}"]
    {
        assert_eq!(said(checked), "", "{checked}");
    }
}
