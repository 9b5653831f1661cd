//! Tests pipelines that cannot run as requested: each error names the fault, and a check changes nothing.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_pipeline::transform::Encode;
use plimsoll_pipeline::{Batch, Partition, Record, TransformFactory};
use plimsoll_run::signals::DEBOUNCE_NS;

use crate::program::{plimsoll, plimsoll_with, shared, stderr};

/// The time limit of every wait, in nanoseconds.
const PATIENCE_NS: u64 = 60 * SECOND_NS;

fn write(dir: &Path, text: &str) -> String {
    let path = dir.join("pipeline.yaml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(dir: &Path, text: &str) -> Output {
    let (path, out) = (write(dir, text), dir.join("run"));
    plimsoll_with(&["pipeline", "run", &path, "--out", out.to_str().unwrap(), "-q"])
}

#[test]
fn a_full_disk_is_reported_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in"), "a\nb\n").unwrap();
    let text = "source: {file: {path: in, format: ndjson}}\npositions: {file: positions}\n\
                sink: {file: {path: /dev/full}}\nretry: {pause: 1ms, pause_max: 1ms, attempts: 2}\n";
    let output = run(dir.path(), text);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let words = stderr(&output);
    assert!(words.contains("/dev/full: No space left on device") && words.contains("3 attempts"), "{words}");
    let summary = fs::read_to_string(dir.path().join("run/pipeline.json")).unwrap();
    assert!(summary.contains("No space left on device"), "{summary}");
}

#[test]
fn an_oversized_event_and_one_without_an_envelope_are_dead_letters() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in"), format!("plain\n{}\n", "x".repeat(500))).unwrap();
    let text = "source: {file: {path: in, format: ndjson}}\npositions: {file: positions}\ntransforms: [{decode: {}}]\n\
                sink: {noop: {}}\ndead_letters: {file: {path: dead, form: whole}}\nin_flight: {event: 100B}\n";
    let output = run(dir.path(), text);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    let dead = fs::read_to_string(dir.path().join("dead")).unwrap();
    assert!(dead.contains("this is not an envelope: it does not begin with `PW`"), "{dead}");
    assert!(dead.contains("it is longer than 100 bytes"), "{dead}");
    assert_eq!(dead.lines().count(), 2);
}

/// A payload, and the event with it in an envelope that contains no line break.
fn envelope() -> (String, Vec<u8>) {
    let make = |payload: String| {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record { payload: Some(payload.as_bytes()), ..Record::default() });
        TransformFactory::build(&Encode, 0).unwrap().apply(&mut batch).unwrap();
        let line = batch.payload(&batch.events()[0]).unwrap().to_vec();
        (payload, line)
    };
    let payloads = (1..).map(|times| "payload".repeat(times));
    payloads.map(make).find(|(_, line)| !line.contains(&b'\n')).unwrap()
}

#[test]
fn an_envelope_of_a_later_version_and_a_damaged_one_are_dead_letters() {
    let dir = tempfile::tempdir().unwrap();
    let (payload, good) = envelope();
    let (mut later, mut flipped) = (good.clone(), good.clone());
    later[2] = 9;
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(
        dir.path().join("in"),
        [later, good.clone(), flipped].map(|line| [line, vec![b'\n']].concat()).concat(),
    )
    .unwrap();
    let text = "source: {file: {path: in, format: ndjson}}\npositions: {file: positions}\ntransforms: [{decode: {}}]\n\
                sink: {file: {path: out}}\ndead_letters: {file: {path: dead, form: whole}}\n";
    let output = run(dir.path(), text);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(dir.path().join("out")).unwrap(), payload + "\n");
    let dead = fs::read_to_string(dir.path().join("dead")).unwrap();
    let said: Vec<_> = dead
        .lines()
        .map(|line| {
            let letter: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(letter["headers"]["plimsoll-stage"], "decode");
            let message = letter["headers"]["plimsoll-message"].as_str().unwrap().to_owned();
            (letter["offset"].as_u64().unwrap(), message)
        })
        .collect();
    let length = good.len() as u64 + 1;
    assert_eq!(said.len(), 2, "{dead}");
    assert_eq!(said[0], (0, "the envelope has version 9, and this program reads version 1".to_owned()));
    assert!(said[1].0 == 2 * length && said[1].1.starts_with("the envelope's checksum is 0x"), "{said:?}");
}

#[cfg(feature = "embedding")]
#[test]
fn a_missing_model_is_reported_with_the_install_command() {
    let dir = tempfile::tempdir().unwrap();
    let text = "guarantee: at-most-once\nsource: {generator: {events: 1}}\ntransforms: [{embed: {}}]\nsink: {noop: {}}\n";
    let path = write(dir.path(), text);
    let cache = dir.path().join("cache");
    let output =
        plimsoll().args(["pipeline", "check", &path]).env("PLIMSOLL_CACHE", &cache).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let words = stderr(&output);
    assert!(words.contains("transforms.0") && words.contains("plimsoll model install"), "{words}");
}

#[cfg(feature = "embedding")]
#[test]
fn an_altered_model_is_reported_with_the_install_command() {
    let dir = tempfile::tempdir().unwrap();
    let text = "guarantee: at-most-once\nsource: {generator: {events: 1}}\ntransforms: [{embed: {}}]\nsink: {noop: {}}\n";
    let (path, cache) = (write(dir.path(), text), dir.path().join("cache"));
    let installed = cache.join("minilm-l6-v2-1");
    fs::create_dir_all(&installed).unwrap();
    let file = format!(r#"{{"name": "model-fp32.onnx", "sha256": "{}", "bytes": 4}}"#, "0".repeat(64));
    fs::write(
        installed.join("manifest.json"),
        format!(r#"{{"format": 1, "packages": [], "files": [{file}]}}"#),
    )
    .unwrap();
    fs::write(installed.join("model-fp32.onnx"), "evil").unwrap();
    for word in ["check", "run"] {
        let output =
            plimsoll().args(["pipeline", word, &path]).env("PLIMSOLL_CACHE", &cache).output().unwrap();
        let words = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains("is not the file that was installed"), "{words}");
        assert!(words.contains("plimsoll model install"), "{words}");
    }
}

#[cfg(feature = "embedding")]
#[test]
fn paths_of_a_users_model_are_relative_to_the_pipeline() {
    let dir = tempfile::tempdir().unwrap();
    let text = "guarantee: at-most-once\nsource: {generator: {events: 1}}\nsink: {noop: {}}\n\
                transforms: [{embed: {model: mine.onnx, tokenizer: mine.json, library: mine.so}}]\n";
    let output = plimsoll_with(&["pipeline", "check", &write(dir.path(), text)]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let (words, model) = (stderr(&output), dir.path().join("mine.onnx"));
    assert!(words.contains(&format!("{model:?} cannot be read")), "{words}");
}

#[test]
fn an_unknown_section_or_key_is_refused_with_the_nearest_one() {
    let dir = tempfile::tempdir().unwrap();
    let check = |change: (&str, &str), unknown: &str, near: &str| {
        let text = "guarantee: at-most-once\nsource: {generator: {events: 1}}\n\
                    transforms: [{filter: {where: '.a'}}]\nsink: {noop: {}}\n";
        let text = text.replace(change.0, change.1);
        for word in ["check", "run"] {
            let output = plimsoll_with(&["pipeline", word, &write(dir.path(), &text)]);
            let words = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{words}");
            assert!(words.contains(unknown) && words.contains(&format!("did you mean `{near}`?")), "{words}");
        }
    };
    check(("filter", "fliter"), "unknown choice `fliter`", "filter");
    check(("generator", "genrator"), "unknown choice `genrator`", "generator");
    check(("noop", "nop"), "unknown choice `nop`", "noop");
    check(("where", "wher"), "unknown key `wher`", "where");
    check(("transforms", "transform"), "unknown key `transform`", "transforms");
}

#[test]
fn a_slip_in_a_signature_names_its_place_and_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let check = |signature: &str, expected: &str| {
        let text = format!(
            "guarantee: at-most-once\nsource: {{generator: {{events: 1}}}}\nsink: {{noop: {{}}}}\n\
             security:\n  principal: {{fixed: a}}\n  rules: []\n  signature: {signature}\n"
        );
        let output = plimsoll_with(&["pipeline", "check", &write(dir.path(), &text)]);
        assert_eq!(output.status.code(), Some(2), "{signature}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{signature}: {}", stderr(&output));
    };
    let one = "line 7, column 14: write exactly one of `hmac_sha256` and `ed25519`";
    check("{header: h}", one);
    check("{hmac_sha256: a, ed25519: b}", one);
    check("{header: h, ed25519: [b]}", "line 7, column 35: found a list: write a single value");
    check("{headr: h, ed25519: b}", "line 7, column 15: unknown key `headr`: did you mean `header`?");
    check("{hmac_sha265: a}", "line 7, column 15: unknown key `hmac_sha265`: did you mean `hmac_sha256`?");
}

#[test]
fn invalid_limits_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let check = |more: &str, expected: &str| {
        let text = format!(
            "guarantee: at-most-once\nsource: {{generator: {{events: 1}}}}\nsink: {{noop: {{}}}}\n{more}\n"
        );
        let output = plimsoll_with(&["pipeline", "check", &write(dir.path(), &text)]);
        assert_eq!(output.status.code(), Some(2), "{more}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{more}: {}", stderr(&output));
    };
    check("retry: {pause: 0s}", "`pause` must be above zero");
    check("retry: {pause: 10s, pause_max: 1s}", "`pause_max` at least as long as `pause`");
    check(
        "dead_letter_limit: {most: 3, of: 0}",
        "`dead_letter_limit: {most: 3, of: 0}` can never be exceeded",
    );
    check("in_flight: {batch: 0}", "must be at least one");
    check("threads: {pool: 0}", "a pool has 1 to");
}

/// A process that ends with the test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

#[test]
fn checking_a_pipeline_does_not_disturb_a_running_one() {
    let dir = tempfile::tempdir().unwrap();
    let text = "source: {generator: {rate: 100}}\npositions: {file: positions}\nsink: {noop: {}}\n";
    let path = write(dir.path(), text);
    let check = || plimsoll_with(&["pipeline", "check", &path]);
    let checked = check();
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    let there: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["pipeline.yaml"], "checking a pipeline creates no file");
    let start = |out: &str| {
        let out = dir.path().join(out);
        let mut command = plimsoll();
        command.args(["pipeline", "run", &path, "--out", out.to_str().unwrap(), "-q"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let mut running = KilledOnDrop(start("first").spawn().unwrap());
    let began = clock::now();
    while !dir.path().join("positions").exists() {
        assert!(clock::now().since(began) < PATIENCE_NS, "the pipeline stored no position in time");
        thread::sleep(Duration::from_millis(20));
    }
    let checked = check();
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    assert!(running.0.try_wait().unwrap().is_none(), "the running pipeline continues");
    // A second run of the same pipeline is refused.
    let second = start("second").output().unwrap();
    assert_eq!(second.status.code(), Some(3), "{}", stderr(&second));
    assert!(stderr(&second).contains("another process uses this file"), "{}", stderr(&second));
}

/// Waits until a condition holds.
fn until(what: &str, limit_ns: u64, mut holds: impl FnMut() -> bool) {
    let began = clock::now();
    while !holds() {
        assert!(clock::now().since(began) < limit_ns, "no {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_second_signal_aborts_a_pipeline_with_busy_threads() {
    let dir = tempfile::tempdir().unwrap();
    // Each event takes the largest allowed number of steps, and one batch contains all events.
    fs::write(dir.path().join("in"), "{}\n".repeat(1000)).unwrap();
    let text = "source: {file: {path: in, format: ndjson}}\npositions: {file: positions}\nsink: {noop: {}}\n\
                transforms: [{filter: {where: 'last(repeat(.))'}}]\ndead_letters: {file: {path: dead, form: whole}}\n";
    let (path, out) = (write(dir.path(), text), dir.path().join("run"));
    let mut command = plimsoll();
    command.args(["pipeline", "run", &path, "--out", out.to_str().unwrap()]);
    let mut running = KilledOnDrop(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(running.0.stderr.take().unwrap());
    until("first second", PATIENCE_NS, || {
        fs::read_to_string(out.join("seconds.ndjson")).is_ok_and(|seconds| !seconds.is_empty())
    });
    let pid = running.0.id().to_string();
    let interrupt = || assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    interrupt();
    let mut line = String::new();
    while !line.contains("press Ctrl-C again") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the pipeline ended with the first signal");
    }
    // Until then a second signal counts as a copy of the first.
    thread::sleep(Duration::from_nanos(DEBOUNCE_NS));
    interrupt();
    until("end", 10 * SECOND_NS, || running.0.try_wait().unwrap().is_some());
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    let mut words = String::new();
    said.read_to_string(&mut words).unwrap();
    assert!(
        words.contains("did not return within 3 s, and 1000 events that were read are not settled"),
        "{words}"
    );
    let summary = fs::read_to_string(out.join("pipeline.json")).unwrap();
    assert!(summary.contains("\"ended\": \"aborted\""), "{summary}");
}

#[test]
fn a_source_that_was_never_reached_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "guarantee: at-least-once\nsource: {{scan: {{uri: 'mongodb://127.0.0.1:9', collection: d.c}}}}\n\
         security: {{rules: [{{allow: {{topic: '*'}}}}]}}\npositions: {{file: positions}}\n\
         sink: {{insert: {{uri: '{}', collection: plimsoll_test.unread, form: bson, identity: payload}}}}\n",
        shared()
    );
    let (path, out) = (write(dir.path(), &text), dir.path().join("run"));
    // The first attempt fails after a second, or later on a busy machine.
    let output = plimsoll_with(&["pipeline", "run", &path, "--for", "6s", "--out", out.to_str().unwrap()]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no event was read") && said.contains("127.0.0.1:9"), "{said}");
    let summary = fs::read_to_string(out.join("pipeline.json")).unwrap();
    assert!(summary.contains("\"ended\": \"failed\""), "{summary}");
}

#[test]
fn an_unreachable_sink_is_named_within_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let text = "guarantee: at-most-once\nsource: {generator: {events: 9}}\n\
         sink: {insert: {uri: 'mongodb://127.0.0.1:9', collection: d.c, form: bson, identity: source}}\n";
    let path = write(dir.path(), text);
    let output =
        plimsoll_with(&["pipeline", "run", &path, "--out", dir.path().join("run").to_str().unwrap()]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the sink cannot be reached: 127.0.0.1:9 refused the connection"), "{said}");
    assert!(!said.contains("primary"), "{said}");
}
