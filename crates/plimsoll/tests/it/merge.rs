//! Tests several processes that are one run: started at one moment, audited separately, and joined.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_measure::clock;
use serde_json::{Value, json};

use crate::program::{inserts, json, measured, plimsoll_with, scenario, shared, stderr};
use crate::shards::{count, counters_add_up, merge, number, run_json, shards};

#[test]
fn three_processes_are_exactly_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("merge_documents", 10, "{documents: 3_001}").replace("writers: 2", "writers: 5");
    let expected = "expect:\n  insert.documents: ['count==3001']\n  integrity.found: ['count==3001']\n  insert.errors: ['count==0']\n";
    let file = scenario(dir.path(), &format!("{text}workers: 1\n"));
    let file = file.to_str().unwrap();
    let parts = shards(dir.path(), file);
    let joined = dir.path().join("joined");
    let output = merge(&parts, &joined);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = json(&output);
    assert_eq!(run, run_json(&joined));
    // On a busy machine Plimsoll may limit the load, which is not a failure.
    assert!(run["verdict"] != "fail" && run["scenario"]["shard"] == "0/1", "{}", run["reasons"]);

    let parts_json: Vec<_> = parts.iter().map(|part| run_json(part)).collect();
    counters_add_up(&run, &parts_json);
    assert_eq!(number(&run, "/operations/insert/documents"), 3_001);
    assert_eq!(count(file), 3_001, "by the server's own count");

    // Each shard finds its own documents, and no document is unexpected to any of them.
    for found in parts_json.iter().chain([&run]).map(|run| &run["integrity"]) {
        assert_eq!(found["found"], found["acknowledged"], "{found}");
        for kind in ["lost", "phantom", "duplicated", "corrupted", "foreign", "unknown_absent"] {
            assert_eq!(found[kind], 0, "{kind} in {found}");
        }
    }
    let audited = plimsoll_with(&["audit", joined.to_str().unwrap(), "--json"]);
    assert_eq!(audited.status.code(), Some(0), "{}", stderr(&audited));
    assert_eq!((&json(&audited)["found"], &json(&audited)["foreign"]), (&json!(3_001), &json!(0)));

    // The origin of the joined run, and its files.
    let from: Vec<_> = run["joined"]["shards"].as_array().unwrap().iter().map(|it| &it["shard"]).collect();
    assert_eq!(from, ["0/3", "1/3", "2/3"]);
    let began: Vec<_> = parts_json.iter().map(|part| number(part, "/began_ms")).collect();
    let at = number(&run, "/start_at_ms");
    // Every shard compared its clock with the server's, which is that of this machine.
    for clock in parts_json.iter().map(|part| &part["client"]["server_clock"]) {
        let bounds = clock["offsets"].as_array().unwrap();
        assert_eq!(bounds.len(), 2, "before and after the load: {clock}");
        let is_zero = |it: &Value| it["min_ms"].as_i64().unwrap() <= 0 && it["max_ms"].as_i64().unwrap() >= 0;
        assert!(bounds.iter().all(is_zero), "{clock}");
    }
    assert!(number(&run, "/joined/clock_bound_ms") < 500, "{}", run["joined"]);
    assert!(run["conclusions"].to_string().contains("by the server's clock, ± "), "{}", run["conclusions"]);
    assert!(began.iter().all(|began| began.abs_diff(at) <= 2), "{began:?} and not {at}");
    for name in ["scenario.yaml", "events.ndjson", "intervals.hlog", "ledger", "report.html"] {
        assert!(joined.join(name).exists(), "{name}");
    }
    assert!(fs::read_to_string(joined.join("report.html")).unwrap().contains("Joined from 3 shards"));
    let shown = plimsoll_with(&["show", joined.to_str().unwrap(), "--replay"]);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));

    // Expectations are judged on the whole: each shard alone would miss them.
    for part in &parts {
        let file = part.join("scenario.yaml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("expect: {}\n", expected)).unwrap();
    }
    let judged = merge(&parts, &dir.path().join("judged"));
    assert_eq!(judged.status.code(), Some(0), "{}", stderr(&judged));
    let held: Vec<_> =
        json(&judged)["expectations"].as_array().unwrap().iter().map(|it| it["held"].clone()).collect();
    assert_eq!(held, [true, true, true], "{}", json(&judged)["expectations"]);

    refusals(dir.path(), &parts);
    an_invalid_verdict_is_an_error_on_request(dir.path(), &parts);
}

/// A shard that the tool may have limited makes the whole run invalid. Only `--fail-on-invalid` turns that
/// into an error.
fn an_invalid_verdict_is_an_error_on_request(dir: &Path, parts: &[PathBuf]) {
    let file = parts[1].join("run.json");
    let mut run = run_json(&parts[1]);
    run["client"]["limited"] = json!(true);
    fs::write(&file, run.to_string()).unwrap();
    let merged = |out: &str, options: &[&str]| {
        let out = dir.join(out);
        let parts = parts.iter().map(|part| part.to_str().unwrap());
        let words = ["merge", "--json", "--out", out.to_str().unwrap()].into_iter().chain(parts);
        plimsoll_with(&words.chain(options.iter().copied()).collect::<Vec<_>>())
    };
    for (out, options, code) in [("lenient", &[][..], 0), ("strict", &["--fail-on-invalid"][..], 5)] {
        let output = merged(out, options);
        assert_eq!(output.status.code(), Some(code), "{out}: {}", stderr(&output));
        assert_eq!(json(&output)["verdict"], "invalid", "{out}: {}", json(&output)["reasons"]);
    }
}

/// Checks that incomplete sets of shards are refused, and that no directory is created.
fn refusals(dir: &Path, parts: &[PathBuf]) {
    let copy = |name: &str, but: &dyn Fn(&str, String) -> Option<String>| {
        let to = dir.join(name);
        fs::create_dir(&to).unwrap();
        for file in ["run.json", "events.ndjson", "scenario.yaml", "shard.ndjson"] {
            let text = fs::read_to_string(parts[1].join(file)).unwrap();
            but(file, text).into_iter().for_each(|text| fs::write(to.join(file), text).unwrap());
        }
        to
    };
    let killed = copy("killed", &|file, text| Some(text).filter(|_| file != "run.json"));
    let old = copy("old", &|file, text| Some(text).filter(|_| file != "shard.ndjson"));
    let cut = copy("cut", &|file, text| {
        let end = if file == "shard.ndjson" { text.len() / 2 } else { text.len() };
        Some(text[..end].to_owned())
    });
    let other = copy("other", &|file, text| {
        Some(if file == "run.json" { text.replace("\"id\": \"", "\"id\": \"00") } else { text })
    });
    let late = copy("late", &|file, mut text| {
        if file == "run.json" {
            let mut run: Value = serde_json::from_str(&text).unwrap();
            run["began_ms"] = json!(number(&run, "/began_ms") + 4_000);
            text = run.to_string();
        }
        Some(text)
    });
    let slow_clock = copy("slow-clock", &|file, mut text| {
        if file == "run.json" {
            let mut run: Value = serde_json::from_str(&text).unwrap();
            let offsets = json!([{"min_ms": 3_000, "max_ms": 3_000}, {"min_ms": 3_000, "max_ms": 3_000}]);
            run["client"]["server_clock"]["offsets"] = offsets;
            text = run.to_string();
        }
        Some(text)
    });
    let nowhere = dir.join("nowhere");
    for (middle, part) in [
        (None, "shard 1/3 is missing: name the run directories of all 3 shards"),
        (Some(&parts[0]), "are both shard 0/3: name each shard once"),
        (Some(&killed), "did not end, so its results are incomplete"),
        (Some(&old), "only `plimsoll run --shard i/n` writes it"),
        (Some(&cut), "run the shard again"),
        (Some(&other), "are different runs with different documents"),
        (Some(&late), "began 4.0 s after"),
        (Some(&slow_clock), "(by the server's clock, ± "),
        (Some(&nowhere), "does not exist"),
    ] {
        let named: Vec<_> =
            [Some(&parts[0]), middle, Some(&parts[2])].into_iter().flatten().cloned().collect();
        let out = dir.join("refused");
        let output = merge(&named, &out);
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
        assert!(!out.exists(), "{part}");
    }
}

#[test]
fn an_open_load_of_three_processes_has_one_schedule() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("merge_open", 1, "{duration: 2s}")
        .replace("{closed: {writers: 2}}", "{constant: {rate: 150, connections: 6}}");
    // A text cannot be increased, so each operation of the second phase is refused.
    let refused = "  - load:\n      refused: {operation: {update: {update: {$inc: {text: 1}}}}, \
                   arrivals: {closed: {writers: 6}}}\n    stop: {operations: 60}\n";
    let file = scenario(dir.path(), &format!("{text}{refused}workers: 1\n"));
    let file = file.to_str().unwrap();
    let parts = shards(dir.path(), file);
    let joined = dir.path().join("joined");
    let output = merge(&parts, &joined);
    let run = json(&output);
    let parts_json: Vec<_> = parts.iter().map(|part| run_json(part)).collect();
    counters_add_up(&run, &parts_json);
    let (insert, failed) = (&run["operations"]["insert"], &run["operations"]["refused"]);
    assert_eq!((&insert["due"], &insert["count"]), (&json!(300), &json!(300)), "{insert}");
    assert_eq!((&failed["count"], &failed["errors"]), (&json!(0), &json!({"bad_command": 60})), "{failed}");
    let attempts = |run: &Value| number(run, "/operations/refused/failed_response_ns/count");
    assert_eq!((attempts(&run), parts_json.iter().map(attempts).sum::<u64>()), (60, 60), "{failed}");
    assert_eq!(run["phases"].as_array().unwrap().len(), 2, "{}", run["phases"]);
    let kept = &run["integrity"];
    // Documents of refused updates are not audited.
    assert_eq!(number(kept, "/found") + number(kept, "/not_audited"), 300, "{kept}");
    assert_eq!((number(kept, "/lost"), number(kept, "/foreign")), (0, 0), "{kept}");
    assert_eq!(count(file), 300);
    assert!(insert["achieved"].as_f64().is_some(), "{insert}");
}

#[test]
fn a_load_begins_at_its_moment_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("start_at", 10, "{documents: 500}"));
    let (file, server) = (file.to_str().unwrap(), shared());
    let past = clock::utc(clock::wall_ms() - 60_000);
    for (more, part) in [
        (&["--start-at", past.as_str()][..], "ago: name a future time"),
        (&["--start-at", "+2h"], "ahead: name one within an hour"),
        (&["--start-at", "tomorrow"], "such as 2026-11-21T18:30:00Z"),
        (&["--start-at", "+30s", "--shard", "0/2"], "give all the same time"),
        (&["--shard", "0/2", "--set", "existing=drop"], "each shard would drop what the others have written"),
        // The calibration alone takes longer than that.
        (&["--start-at", "+500ms"], "preparation took too long"),
    ] {
        let out = dir.path().join("refused");
        let words = ["run", file, "--server", &server, "--out", out.to_str().unwrap(), "--quiet"];
        let output = measured().args(words).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
        assert!(!out.exists(), "no run directory: {part}");
    }
    let run = ["+4s", "+60s"].iter().find_map(|ahead| {
        let out = dir.path().join(ahead);
        let words = ["run", file, "--server", &server, "--out", out.to_str().unwrap()];
        let output = plimsoll_with(&[&words[..], &["--json", "--start-at", ahead]].concat());
        (output.status.code() == Some(0)).then(|| json(&output))
    });
    let run = run.unwrap();
    assert!(number(&run, "/began_ms").abs_diff(number(&run, "/start_at_ms")) <= 2, "{}", run["began_ms"]);
    assert_eq!(run["integrity"]["found"], 500);
}
