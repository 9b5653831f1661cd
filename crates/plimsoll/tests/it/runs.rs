//! Tests successful runs, from the start to a later audit.

use std::process::Stdio;

use plimsoll_measure::clock;
use plimsoll_wire::{ConnectOptions, Connection};
use serde_json::{Value, json};

use crate::program::{inserts, json, measured, plimsoll_with, scenario, shared, stderr, stdout};

#[test]
fn two_runs_at_once_into_one_empty_collection_name_each_other_and_hold() {
    std::thread::scope(|scope| {
        for case in [("stamped", "", 0), ("plain", "stamp: false", 0)] {
            scope.spawn(move || two_runs_at_once(case));
        }
        // All documents have the same content, so it does not confirm a receipt. The small number in the
        // receipt does.
        for case in [("constant", "stamp: false", 0), ("constant_user", "id: user\nstamp: false", 8)] {
            scope.spawn(move || two_runs_at_once(case));
        }
        // Ids in YCSB's form omit the run's time, the first eight digits of its ID.
        for case in [("user", "id: user", 8), ("user_plain", "id: user\nstamp: false", 8)] {
            scope.spawn(move || two_runs_at_once(case));
        }
    });
}

/// Runs a scenario with these keys twice at the same time. Checks that each summary names the other run's ID
/// from this digit on.
fn two_runs_at_once((name, keys, first): (&str, &str, usize)) {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts(&format!("together_{name}"), 10, "{duration: 1s}");
    let text = if name.starts_with("constant") { text.replace(DOCUMENT, "document: {a: 1}") } else { text };
    let file = scenario(dir.path(), &format!("{keys}\n{text}"));
    let start = clock::utc(clock::wall_ms() + 12_000);
    let run = |name: &str| {
        let out = dir.path().join(name);
        let args =
            ["run", file.to_str().unwrap(), "--server", &shared(), "--start-at", &start, "--json", "--out"];
        crate::program::plimsoll()
            .args(args)
            .arg(out)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let runs = [run("one"), run("other")].map(|run| run.wait_with_output().unwrap());
    let summaries = runs.each_ref().map(json);
    for (output, summary, other) in
        [(&runs[0], &summaries[0], &summaries[1]), (&runs[1], &summaries[1], &summaries[0])]
    {
        let (kept, id) = (&summary["integrity"], other["id"].as_str().unwrap());
        assert_eq!(output.status.code(), Some(0), "{keys}: {}: {}", summary["reasons"], stderr(output));
        assert_eq!((&kept["phantom"], &kept["lost"]), (&json!(0), &json!(0)), "{keys}: {kept}");
        let runs: Vec<_> = kept["foreign_runs"].as_object().unwrap().keys().collect();
        assert!(runs.len() == 1 && runs[0].trim_start_matches('…') == &id[first..], "{keys}: {kept}");
        assert!(summary["conclusions"].to_string().contains(runs[0]), "{}", summary["conclusions"]);
    }
    for name in ["one", "other"] {
        let audited = plimsoll_with(&["audit", dir.path().join(name).to_str().unwrap()]);
        assert_eq!(audited.status.code(), Some(0), "{}", stderr(&audited));
        let named = stdout(&audited).lines().any(|line| line.trim_start().starts_with("of run"));
        assert!(named, "{}", stdout(&audited));
    }
}

/// The document of the scenario that inserts.
const DOCUMENT: &str = "document: {n: {$number: {}}, text: {$text: {bytes: 40}}}";

/// Inserts a document that belongs to no run as soon as the collection has documents of a run.
fn insert_stranger(collection: &str) {
    let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        let count = bson::rawdoc! {"count": collection};
        while connection.command("plimsoll_test", &count).await.unwrap().get_i32("n").unwrap_or(0) == 0 {}
        let insert = bson::rawdoc! {"insert": collection, "documents": [{"_id": 7, "stranger": true}]};
        connection.command("plimsoll_test", &insert).await.unwrap();
    });
}

#[test]
fn a_document_of_no_run_gets_the_same_verdict_from_run_and_audit() {
    for (name, during, exit) in [("stranger_during", true, 4), ("stranger_after", false, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        let text = format!("stamp: false\n{}", inserts(name, 10, "{duration: 2s}"));
        let file = scenario(dir.path(), &text);
        let mut command = crate::program::plimsoll();
        command.args(["run", file.to_str().unwrap(), "--server", &shared(), "--json", "--out"]).arg(&out);
        let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if during {
            insert_stranger(name);
        }
        let ran = running.wait_with_output().unwrap();
        if !during {
            insert_stranger(name);
        }
        let server = format!("{}&fooBar=1&maxIdleTimeMS=5", shared());
        let audited = plimsoll_with(&["audit", out.to_str().unwrap(), "--json", "--server", &server]);
        assert!(stderr(&audited).contains("`fooBar` of the address is unknown"), "{}", stderr(&audited));
        assert!(
            stderr(&audited).contains("`maxIdleTimeMS` of the address has no effect here"),
            "{}",
            stderr(&audited)
        );
        let exits = [&ran, &audited].map(|output| output.status.code());
        assert_eq!(exits, [Some(exit); 2], "{name}: {}{}", stderr(&ran), stdout(&audited));
        let found = json(&audited);
        let kinds = (found["phantom"].as_u64(), found["foreign"].as_u64());
        assert_eq!(kinds, (Some(u64::from(during)), Some(u64::from(!during))), "{name}: {found}");
    }
}

#[test]
fn a_run_proves_every_document_and_writes_all_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("proves", 100, "{documents: 20_050}"));
    let out = dir.path().join("run");
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let output =
        measured().args(["run", file, "--server", &shared(), "--out", out, "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = json(&output);
    assert_eq!((&run["format"], &run["verdict"]), (&json!(1), &json!("pass")));
    assert_eq!(run["operations"]["insert"]["documents"], 20_050);
    assert_eq!(run["operations"]["insert"]["count"], 201, "all batches but the last are full");
    assert_eq!(run["integrity"]["acknowledged"], 20_050);
    assert_eq!(run["integrity"]["found"], 20_050);
    assert_eq!(run["integrity"]["write_concern"], r#"{"w": 1, "j": true}"#);
    assert!(run["client"]["headroom"].as_f64().is_some_and(|headroom| headroom > 1.0), "{}", run["client"]);
    for calibration in ["calibration_null_per_s", "calibration_ping_ns"] {
        let looks = run["client"][calibration].as_array().unwrap();
        assert!(
            looks.len() == 2 && looks.iter().all(|it| it.as_f64() > Some(0.0)),
            "before and after: {looks:?}"
        );
    }
    for name in ["scenario.yaml", "run.json", "events.ndjson", "intervals.hlog", "ledger", "report.html"] {
        assert!(dir.path().join("run").join(name).exists(), "{name}");
    }
    let kept: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path().join("run/run.json")).unwrap()).unwrap();
    assert_eq!(kept, run);

    let shown = plimsoll_with(&["show", out]);
    assert!(stdout(&shown).contains("20,050"), "{}", stdout(&shown));
    let audited = plimsoll_with(&["audit", out, "--json"]);
    assert_eq!(audited.status.code(), Some(0), "{}", stderr(&audited));
    assert_eq!(json(&audited)["found"], 20_050);
}

#[test]
fn the_documented_keys_of_run_json_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("keys", 10, "{documents: 2_000}"));
    let out = dir.path().join("run");
    let args =
        ["run", file.to_str().unwrap(), "--server", &shared(), "--out", out.to_str().unwrap(), "--json"];
    let run = json(&plimsoll_with(&args));
    for pointer in [
        "/format",
        "/verdict",
        "/scenario/hash",
        "/server/addresses/0",
        "/environment/cores",
        "/operations/insert/count",
        "/operations/insert/documents",
        "/operations/insert/rate_per_s",
        "/operations/insert/documents_per_s",
        "/operations/insert/skipped",
        "/operations/insert/errors",
        "/operations/insert/response_ns/p99",
        "/operations/insert/service_ns/p99_9",
        "/operations/insert/wake_ns/max",
        "/operations/insert/wait_ns/mean",
        "/operations/insert/cpu_us_per_operation",
        "/phases/0/cpu_us_per_operation",
        "/integrity/write_concern",
        "/integrity/acknowledged",
        "/integrity/found",
        "/integrity/lost",
        "/integrity/phantom",
        "/integrity/duplicated",
        "/integrity/corrupted",
        "/integrity/rejected",
        "/integrity/unknown_present",
        "/integrity/unknown_absent",
        "/integrity/not_audited",
        "/client/cpu_us_per_operation",
        "/client/cpu_us_per_document",
        "/client/rss_bytes_max",
        "/client/headroom",
        "/client/limited",
        "/expectations",
    ] {
        assert!(run.pointer(pointer).is_some(), "{pointer} is missing");
    }
    assert!(run["line"].is_null() && run["phases"][0]["cpu_us_per_operation"].as_f64() > Some(0.0));
    assert!(run["client"]["headroom"].is_null(), "the headroom was not measured: {}", run["client"]);
}

#[test]
fn every_operation_works_over_both_clients() {
    let dir = tempfile::tempdir().unwrap();
    let operations = [
        ("find", "{find: {}}"),
        ("filter", "{find: {filter: {n: {$gte: 0}}, limit: 5}}"),
        ("all", "{find: {filter: {n: {$gte: 0}}, read_concern: local}}"),
        ("update", "{update: {update: {$set: {seen: {$number: {}}}}}}"),
        ("replace", "{replace: {}}"),
        ("remove", "{delete: {filter: {n: -1}}}"),
    ];
    for client in ["lean", "driver"] {
        let mut text = inserts(&format!("every_{client}"), 50, "{documents: 2_000}");
        for (name, operation) in operations {
            text.push_str(&format!(
                "  - load:\n      {name}: {{operation: {operation}, arrivals: {{closed: {{writers: 2}}}}}}\n    stop: {{operations: 100}}\n"
            ));
        }
        text.push_str(&format!("client: {client}\n"));
        let file = scenario(dir.path(), &text);
        let out = dir.path().join(client);
        let args =
            ["run", file.to_str().unwrap(), "--server", &shared(), "--out", out.to_str().unwrap(), "--json"];
        let output = plimsoll_with(&args);
        assert_eq!(output.status.code(), Some(0), "{client}: {}", stderr(&output));
        let run = json(&output);
        for (name, _) in operations {
            assert_eq!(run["operations"][name]["count"], 100, "{client} {name}: {}", run["operations"][name]);
        }
        assert_eq!(run["operations"]["filter"]["documents"], 500, "{client}");
        assert_eq!(run["operations"]["all"]["documents"], 200_000, "{client} reads every batch of a cursor");
        assert_eq!(run["verdict"], "pass", "{client}: {}", run["reasons"]);
        assert_eq!(run["integrity"]["lost"], 0);
        assert_eq!(run["integrity"]["not_audited"], 2_000, "a delete by filter may touch any document");
    }
}

/// Runs a command on the shared server.
fn ask(database: &str, command: &bson::RawDocument) {
    let address = shared().trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::connect(&ConnectOptions::new(address)).await.unwrap();
        connection.command(database, command).await.unwrap();
    });
}

/// Runs a scenario on the shared server.
fn run_text(text: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), text);
    let out = dir.path().join("run");
    json(&plimsoll_with(&[
        "run",
        file.to_str().unwrap(),
        "--server",
        &shared(),
        "--out",
        out.to_str().unwrap(),
        "--json",
    ]))
}

#[test]
fn documents_that_may_vanish_do_not_count_as_lost() {
    ask("plimsoll_test", &bson::rawdoc! {"create": "capped", "capped": true, "size": 16_384});
    let key = bson::rawdoc! {"key": {"n": 1}, "name": "soon", "expireAfterSeconds": 1};
    ask("plimsoll_test", &bson::rawdoc! {"createIndexes": "expiring", "indexes": [key]});
    for (collection, reason) in [("capped", "capped"), ("expiring", "the index soon lets documents expire")] {
        let run = run_text(&inserts(collection, 100, "{documents: 3_000}"));
        assert_eq!(run["integrity"]["proof"], "not_applicable", "{}", run["integrity"]);
        assert!(run["integrity"]["reason"].as_str().unwrap().contains(reason), "{}", run["integrity"]);
        assert_eq!(run["verdict"], "pass", "{}", run["reasons"]);
    }
}

#[test]
fn documents_with_their_own_ids_are_counted() {
    let text = inserts("own", 100, "{documents: 3_000}").replace("{n:", "{_id: {$sequence: {}}, n:");
    let run = run_text(&format!("{text}id: own\n"));
    assert_eq!(run["integrity"]["proof"], "counted");
    assert_eq!((&run["integrity"]["found"], &run["integrity"]["lost"]), (&json!(3_000), &json!(0)));
}

#[test]
fn every_worker_finds_documents_that_one_connection_inserted() {
    let mut text = inserts("few", 100, "{documents: 2_000}").replace("writers: 2", "writers: 1");
    text.push_str("  - load:\n      find: {operation: {find: {}}, arrivals: {closed: {writers: 4}}}\n");
    text.push_str("    stop: {operations: 400}\nworkers: 4\n");
    let run = run_text(&text);
    assert_eq!(run["operations"]["find"]["count"], 400, "{}", run["operations"]["find"]);
    assert_eq!(run["operations"]["find"]["documents"], 400);
}

#[test]
fn documents_of_a_file_are_audited_from_any_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("people.csv"), "name,age.int32()\nann,41\nbob,42\n").unwrap();
    let text = inserts("from_file", 10, "{documents: 1_000}");
    let (head, rest) = text.split_once("document:").unwrap();
    let (_, tail) = rest.split_once('\n').unwrap();
    let text = format!("{head}documents_from: {{path: people.csv, past_end: repeat}}\n{tail}");
    let file = scenario(dir.path(), &text);
    let out = dir.path().join("run");
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let run = json(&plimsoll_with(&["run", file, "--server", &shared(), "--out", out, "--json"]));
    assert_eq!(run["integrity"]["found"], 1_000, "{}", run["integrity"]);
    let audited = json(&plimsoll_with(&["audit", out, "--json"]));
    assert_eq!((&audited["found"], &audited["corrupted"]), (&json!(1_000), &json!(0)));
}

#[test]
fn unacknowledged_writes_prove_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("forget", 10, "{documents: 1_000}").replace("{w: 1, j: true}", "{w: 0}");
    let file = scenario(dir.path(), &text);
    let out = dir.path().join("run");
    let args =
        ["run", file.to_str().unwrap(), "--server", &shared(), "--out", out.to_str().unwrap(), "--json"];
    let run = json(&plimsoll_with(&args));
    assert_eq!(run["integrity"]["proof"], "fire_and_forget");
    assert_eq!(
        (&run["integrity"]["acknowledged"], &run["integrity"]["unknown_present"]),
        (&json!(0), &json!(1000))
    );
}

#[test]
fn kept_storage_can_be_audited_later_and_removed_storage_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("kept", 100, "{documents: 5_000}"));
    let file = file.to_str().unwrap();
    let (kept, gone) = (dir.path().join("kept"), dir.path().join("gone"));
    let (kept, gone) = (kept.to_str().unwrap(), gone.to_str().unwrap());
    let output = plimsoll_with(&["run", file, "--server", "embedded", "--out", kept, "--keep", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let audited = plimsoll_with(&["audit", kept, "--json"]);
    assert_eq!(json(&audited)["found"], 5_000);
    plimsoll_with(&["run", file, "--server", "embedded:relaxed", "--out", gone, "--quiet"]);
    let refused = plimsoll_with(&["audit", gone]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(stderr(&refused).contains("run the scenario again with --keep"), "{}", stderr(&refused));
}

#[test]
fn shards_together_send_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("shards", 100, "{documents: 3_000}").replace("title", "existing: append\ntitle");
    let file = scenario(dir.path(), &text);
    let sum: u64 = ["0/2", "1/2"]
        .iter()
        .map(|shard| {
            let out = dir.path().join(shard.replace('/', "of"));
            let out = out.to_str().unwrap();
            let args = [
                "run",
                file.to_str().unwrap(),
                "--server",
                &shared(),
                "--out",
                out,
                "--shard",
                shard,
                "--json",
            ];
            let run = json(&plimsoll_with(&args));
            assert_eq!(run["integrity"]["lost"], 0);
            run["integrity"]["found"].as_u64().unwrap()
        })
        .sum();
    assert_eq!(sum, 3_000);
}

#[test]
fn lists_are_printed_without_a_server() {
    let listed = stdout(&plimsoll_with(&["scenarios"]));
    assert!(listed.lines().any(|line| line.starts_with("bulk-baseline") && line.ends_with('?')), "{listed}");
    assert!(stdout(&plimsoll_with(&["scenarios", "freeze"])).contains("title: a server that freezes"));
    assert!(stdout(&plimsoll_with(&["schema"])).contains("\"phases\""));
    assert!(stdout(&plimsoll_with(&["completions", "bash"])).contains("plimsoll"));
}
