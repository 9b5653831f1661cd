//! Tests `--dry-run`: it describes a run or a suite, contacts no server and writes no file.

use std::path::Path;
use std::process::Output;

use crate::program::{inserts, plimsoll, scenario, stderr, stdout};

/// An address at which no server listens.
const NOWHERE: &str = "mongodb://127.0.0.1:9/?directConnection=true";

fn dry(dir: &Path, args: &[&str]) -> Output {
    plimsoll().current_dir(dir).args(args).args(["--server", NOWHERE, "--dry-run"]).output().unwrap()
}

#[track_caller]
fn described(dir: &Path, args: &[&str], files: usize) -> String {
    let output = dry(dir, args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), files, "a dry run writes no file");
    stdout(&output)
}

#[test]
fn a_dry_run_shows_the_scenario_three_documents_and_the_cost() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("dry", 10, "{documents: 1_000, duration: 5s}");
    scenario(dir.path(), &text);
    let said = described(dir.path(), &["run", "scenario.yaml", "--set", "title=replaced"], 1);
    for part in [
        "title: replaced\n",
        "collection: plimsoll_test.dry\n",
        "\"n\":0,",
        "\"n\":1,",
        "\"n\":2,",
        "time       at most 13.0 s: 5.00 s of load, 8.02 s around it",
        "documents  at most 1,000, about ",
        "disk       at most ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("\"n\":3,"), "three documents: {said}");
    let sizes: Vec<usize> = said.lines().filter(|line| line.contains("\"_id\"")).map(str::len).collect();
    assert_eq!(sizes.len(), 3);
    // The description is the scenario again.
    scenario(dir.path(), &said);
    assert_eq!(described(dir.path(), &["run", "scenario.yaml"], 1), said);
}

#[test]
fn an_invalid_scenario_is_refused_as_ever() {
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), &inserts("dry", 10, "{}"));
    for (args, part) in [
        (&["run", "scenario.yaml"][..], "a phase without an end"),
        (&["run", "scenario.yaml", "--set", "phases.0.stop={documents: 5}", "--shard", "0/0"], "--shard 0/0"),
        (&["run", "scenario.yaml", "--json"], "cannot be used with"),
        (&["suite", "scenario.yaml"], "scenario.yaml"),
    ] {
        let output = dry(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn options_of_an_address_without_effect_are_named_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), &inserts("dry", 10, "{documents: 5}"));
    let uri = "mongodb://127.0.0.1:9/?fooBar=1&maxIdleTimeMS=5";
    std::fs::write(dir.path().join("night.csv"), format!("name,scenario,server\na,scenario.yaml,{uri}\n"))
        .unwrap();
    let pipeline = format!(
        "source: {{change_stream: {{uri: '{uri}&socketTimeoutMS=5', watch: d.c}}}}\npositions: {{file: positions}}\nsink: {{noop: {{}}}}\n"
    );
    std::fs::write(dir.path().join("pipeline.yaml"), pipeline).unwrap();
    let sink = format!(
        "guarantee: at-most-once\nsource: {{generator: {{}}}}\nsink: {{insert: {{uri: '{uri}', collection: d.c}}}}\n"
    );
    std::fs::write(dir.path().join("sink.yaml"), sink).unwrap();
    for (args, option) in [
        (&["run", "scenario.yaml", "--server", uri, "--dry-run"][..], "`fooBar`"),
        (&["run", "strategies", "--server", uri, "--dry-run"], "`fooBar`"),
        (&["bench", "--insert", "{a: 1}", "--server", uri, "--dry-run"], "`fooBar`"),
        (&["suite", "night.csv", "--dry-run"], "`fooBar`"),
        (
            &["run", "scenario.yaml", "--server", uri, "--dry-run"],
            "maxIdleTimeMS in the server's address has no effect",
        ),
        (&["suite", "night.csv", "--dry-run"], "maxIdleTimeMS in the server's address has no effect"),
        (&["pipeline", "check", "pipeline.yaml"], "`fooBar`"),
        (&["pipeline", "check", "sink.yaml"], "`maxIdleTimeMS` of the address has no effect here"),
        (&["pipeline", "check", "pipeline.yaml"], "`socketTimeoutMS` of the address has no effect here"),
    ] {
        let output = plimsoll().current_dir(dir.path()).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).matches(option).count(), 1, "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_dry_run_refuses_an_address_that_the_run_refuses() {
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), &inserts("dry", 10, "{documents: 5}"));
    let file = "scenario.yaml";
    for (name, option, client, part) in [
        (file, "maxPoolSize=1", "lean", "maxPoolSize"),
        (file, "tls=true&tlsAllowInvalidHostnames=true", "driver", "the official driver does not have it"),
        (file, "w=0", "lean", "the server's address says w=0"),
        (file, "loadBalanced=true", "lean", "loadBalanced=true is unsupported"),
        (file, "tls=true&tlsCAFile=/no/such/file", "lean", "correct tlsCAFile"),
        ("baseline-short", "w=1", "lean", "the option `w` of the database's address would be lost"),
        ("baseline-short", "replicaSet=rs&maxPoolSize=9&Journal=false", "lean", "the option `Journal`"),
        ("baseline-short", "tlsInsecure=true", "lean", "the option `tlsInsecure`"),
    ] {
        let (uri, client) = (format!("mongodb://127.0.0.1:9/?{option}"), format!("client={client}"));
        let args = ["run", name, "--server", &uri, "--set", &client, "--dry-run"];
        let output = plimsoll().current_dir(dir.path()).args(args).output().unwrap();
        let said = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{option}: {said}");
        assert!(said.contains(part), "{option}: {said}");
    }
}

#[test]
fn a_dry_run_refuses_concerns_that_promise_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("night.csv"),
        "name,scenario,overrides\na,consistency,write_concern={w: 1}\n",
    )
    .unwrap();
    for args in [&["run", "consistency", "--set", "write_concern={w: 1}"][..], &["suite", "night.csv"]] {
        let args = [args, &["--server", "embedded", "--dry-run"]].concat();
        let output = plimsoll().current_dir(dir.path()).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        let part = r#"the write concern ({"w": 1}) acknowledges"#;
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn addresses_with_different_concerns_are_refused_before_a_server_is_contacted() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("dry", 10, "{documents: 5}");
    for (one, other, exit) in [
        ("w=1", "w=2", 2),
        ("w=1", "", 2),
        ("readPreference=nearest", "readPreference=primary", 2),
        ("readConcernLevel=local", "readConcernLevel=majority", 2),
        ("w=1&appName=a", "journal=false&w=1", 2),
        ("w=1&appName=a", "w=1&appName=b", 0),
    ] {
        let servers =
            format!("servers: ['mongodb://127.0.0.1:9/?{one}', 'mongodb://127.0.0.1:11/?{other}']\n");
        scenario(dir.path(), &format!("{text}{servers}"));
        std::fs::write(dir.path().join("night.csv"), "name,scenario\na,scenario.yaml\n").unwrap();
        for args in [["run", "scenario.yaml", "--dry-run"], ["suite", "night.csv", "--dry-run"]] {
            let output = plimsoll().current_dir(dir.path()).args(args).output().unwrap();
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(exit), "{args:?} {one} {other}: {said}");
            assert_eq!(said.contains("name different write concerns"), exit == 2, "{args:?} {one}: {said}");
        }
    }
}

#[test]
fn a_service_gets_only_addresses_so_options_are_refused_by_name_before_a_server_is_contacted() {
    let of_scheme =
        "the option `tls` of the database's address would be lost; Plimsoll passes only the addresses";
    for (uri, part) in [
        ("mongodb+srv://nowhere.invalid/", of_scheme),
        ("mongodb+srv://nowhere.invalid/?replicaSet=rs", of_scheme),
        ("mongodb://127.0.0.1:9/?fooBar=1&w=1", "the option `w` of the database's address would be lost"),
        ("mongodb://ann:x@127.0.0.1:9/", "the database of the service needs a user"),
    ] {
        for dry in [&["--dry-run"][..], &[]] {
            let output =
                plimsoll().args(["run", "baseline-short", "--server", uri]).args(dry).output().unwrap();
            let said = stderr(&output);
            assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{uri}: {said}");
            assert!(said.contains(part), "{uri}: {said}");
        }
    }
    let kept =
        "mongodb://127.0.0.1:9/?replicaSet=rs&serverSelectionTimeoutMS=9&tls=false&maxPoolSize=9&fooBar=1";
    let output = plimsoll().args(["run", "baseline-short", "--dry-run", "--server", kept]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for part in ["`fooBar` of the address is unknown", "`maxPoolSize` of the address has no effect here"] {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
}

#[test]
fn commands_that_share_no_pool_name_its_options_and_a_long_wait() {
    let uri = "mongodb://127.0.0.1:9/?maxPoolSize=2&maxConnecting=5&serverSelectionTimeoutMS=1100";
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["inspect", "--json"][..],
        &["scenarios", "derive", "--collection", "d.c"],
        &["workflow", "list"],
        &["serve", "workflow", "--listen", "127.0.0.1:0"],
        &["run", "baseline-short", "--out", "service"],
        &["run", "workflow-roundtrip", "--out", "workflow"],
    ] {
        let output = plimsoll().current_dir(dir.path()).args(args).args(["--server", uri]).output().unwrap();
        let said = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), ""), "{args:?}: {said}");
        for part in [
            "`maxPoolSize` of the address has no effect here",
            "`maxConnecting` of the address has no effect here",
            "waiting for 127.0.0.1:9: no answer yet, up to 1.1 s (serverSelectionTimeoutMS)",
            "after a wait of 1.1 s (serverSelectionTimeoutMS): 127.0.0.1:9 refused the connection",
        ] {
            assert_eq!(said.matches(part).count(), 1, "{args:?}: {part} is not once in {said}");
        }
    }
}

#[test]
fn a_pipeline_waits_for_its_servers_as_long_as_the_address_says() {
    let dir = tempfile::tempdir().unwrap();
    let uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=1100";
    let sink = format!(
        "guarantee: at-most-once\nsource: {{generator: {{}}}}\nsink: {{insert: {{uri: '{uri}', collection: d.c}}}}\n"
    );
    let source = format!(
        "source: {{change_stream: {{uri: '{uri}', watch: d.c, start: now}}}}\npositions: {{file: positions}}\nsink: {{noop: {{}}}}\n"
    );
    for text in [sink, source] {
        std::fs::write(dir.path().join("pipeline.yaml"), &text).unwrap();
        let output =
            plimsoll().current_dir(dir.path()).args(["pipeline", "run", "pipeline.yaml"]).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{text}: {said}");
        for part in [
            "waiting for 127.0.0.1:9: no answer yet, up to 1.1 s (serverSelectionTimeoutMS)",
            "after a wait of 1.1 s (serverSelectionTimeoutMS): 127.0.0.1:9 refused the connection",
        ] {
            assert_eq!(said.matches(part).count(), 1, "{text}: {part} is not once in {said}");
        }
        assert!(!said.contains("integrity"), "the pipeline does not start: {said}");
    }
}

#[test]
fn a_matrix_shows_its_cells_and_the_documents_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let said = described(dir.path(), &["run", "strategies"], 0);
    assert!(said.contains("# Sample documents") && said.contains("matrix:"), "{said}");
    assert!(said.contains("cells,") && said.contains("at most"), "{said}");
}

#[test]
fn a_suite_lists_its_runs_in_order_with_their_time() {
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), &inserts("dry", 10, "{documents: 1_000, duration: 5s}"));
    let rows = "name,scenario,repetitions,warm_up,pipeline\nfirst,scenario.yaml,2,0s,\nsecond,scenario.yaml,1,3s,\n\
                third,,1,0s,generator-to-noop\n";
    std::fs::write(dir.path().join("night.csv"), rows).unwrap();
    let said = described(dir.path(), &["suite", "night.csv"], 2);
    assert_eq!(said.matches("\"n\":2,").count(), 2, "each test has its documents: {said}");
    let runs = said.split("# Runs in their order:\n").nth(1).unwrap();
    let names: Vec<_> =
        runs.lines().filter_map(|line| line.strip_prefix("#   ")?.split(' ').next()).collect();
    assert_eq!(names, ["001-first-r1", "002-second", "003-third", "004-first-r2"], "{runs}");
    let second = runs.lines().find(|line| line.contains("002-second")).unwrap();
    assert!(second.ends_with("  at most 24.0 s"), "with its warm-up: {runs}");
    assert!(runs.contains("# Expected in all: "), "{runs}");
}
