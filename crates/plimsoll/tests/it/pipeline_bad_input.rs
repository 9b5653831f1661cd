//! Pipelines that cannot go on as they were asked to: each says what is wrong, and a look changes nothing.

use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use plimsoll_measure::clock::{self, SECOND_NS};

use crate::program::{plimsoll, plimsoll_with, stderr};

/// How long something may take to begin, in nanoseconds.
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
fn a_full_disk_is_said_with_its_file() {
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
fn an_event_that_is_too_large_and_one_that_is_in_no_envelope_are_dead_letters_that_say_so() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in"), format!("plain\n{}\n", "x".repeat(500))).unwrap();
    let text = "source: {file: {path: in, format: ndjson}}\npositions: {file: positions}\ntransforms: [{decode: {}}]\n\
                sink: {noop: {}}\ndead_letters: {file: {path: dead, form: whole}}\nin_flight: {event: 100B}\n";
    let output = run(dir.path(), text);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let dead = fs::read_to_string(dir.path().join("dead")).unwrap();
    assert!(dead.contains("this is no envelope: it does not begin with `PW`"), "{dead}");
    assert!(dead.contains("it is longer than 100 bytes"), "{dead}");
    assert_eq!(dead.lines().count(), 2);
}

#[cfg(feature = "embedding")]
#[test]
fn a_model_that_is_missing_is_said_with_the_command_that_installs_it() {
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

#[test]
fn limits_that_mean_nothing_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let check = |more: &str, expected: &str| {
        let text = format!(
            "guarantee: at-most-once\nsource: {{generator: {{events: 1}}}}\nsink: {{noop: {{}}}}\n{more}\n"
        );
        let output = plimsoll_with(&["pipeline", "check", &write(dir.path(), &text)]);
        assert_eq!(output.status.code(), Some(2), "{more}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{more}: {}", stderr(&output));
    };
    check("retry: {pause: 0s}", "there must be a pause");
    check("retry: {pause: 10s, pause_max: 1s}", "mend `pause` and `pause_max`");
    check("dead_letter_limit: {most: 3, of: 0}", "3 of 0 events are never too many");
    check("in_flight: {batch: 0}", "at least one");
    check("threads: {pool: 0}", "a pool has 1 to");
}

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

#[test]
fn to_check_a_pipeline_takes_nothing_from_one_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let text = "source: {generator: {rate: 100}}\npositions: {file: positions}\nsink: {noop: {}}\n";
    let path = write(dir.path(), text);
    let check = || plimsoll_with(&["pipeline", "check", &path]);
    let checked = check();
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    let there: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["pipeline.yaml"], "to look at a pipeline makes nothing");
    let start = |out: &str| {
        let out = dir.path().join(out);
        let mut command = plimsoll();
        command.args(["pipeline", "run", &path, "--out", out.to_str().unwrap(), "-q"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let mut running = Ends(start("first").spawn().unwrap());
    let began = clock::now();
    while !dir.path().join("positions").exists() {
        assert!(clock::now().since(began) < PATIENCE_NS, "it keeps no positions");
        std::thread::sleep(Duration::from_millis(20));
    }
    let checked = check();
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    assert!(running.0.try_wait().unwrap().is_none(), "it runs on");
    // To run it a second time is another matter.
    let second = start("second").output().unwrap();
    assert_eq!(second.status.code(), Some(3), "{}", stderr(&second));
    assert!(stderr(&second).contains("another process uses this file"), "{}", stderr(&second));
}
