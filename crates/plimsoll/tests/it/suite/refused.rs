//! Tests refusals of suites and tests, each with its place and its remedy.

use super::{column, count, scenarios, suite, write};
use crate::program::{plimsoll, plimsoll_with, shared, stderr, stdout};

#[test]
fn a_collection_with_documents_is_refused_or_dropped_as_the_row_says() {
    let dir = tempfile::tempdir().unwrap();
    scenarios(dir.path(), "suite_full");
    let rows = "name,scenario,existing,warm_up\nrefused,quick.yaml,,0s\ndropped,quick.yaml,drop,1s\n";
    let file = write(dir.path(), "full.csv", rows);
    let quick = dir.path().join("quick.yaml");
    let server = shared();
    // The first test has its own collection; the second drops the collection that its scenario names.
    for collection in ["suite_full_quick_1", "suite_full_quick"] {
        let (first, named) = (dir.path().join(collection), format!("collection=plimsoll_suite.{collection}"));
        let run = ["run", quick.to_str().unwrap(), "--server", &server, "--set", &named, "-q", "--out"];
        let filled = plimsoll_with(&[&run[..], &[first.to_str().unwrap()]].concat());
        assert_eq!(filled.status.code(), Some(0), "{}", stderr(&filled));
    }
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--server", &server]);
    assert_eq!(made.status.code(), Some(2), "{}", stderr(&made));
    assert_eq!(column(&out, "outcome"), ["refused", "completed"], "{}", stderr(&made));
    assert!(stderr(&made).contains("is not empty (2000 documents)"), "{}", stderr(&made));
    assert!(stderr(&made).contains("held 2,000 documents and was dropped"), "{}", stderr(&made));
    assert_eq!((count("suite_full_quick"), count("suite_full_quick_warm_up")), (2000, 0));
    assert_eq!(count("suite_full_quick_1"), 2000, "existing documents are not changed");
}

#[test]
fn the_installation_of_the_embedded_server_is_announced_by_a_suite() {
    let dir = tempfile::tempdir().unwrap();
    scenarios(dir.path(), "suite_install");
    let rows = "name,scenario,server,warm_up\na,quick.yaml,embedded,0s\n";
    let file = write(dir.path(), "install.csv", rows);
    let out = dir.path().join("out");
    let mut command = plimsoll();
    command.args(["suite", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    // The installation fails at once, because it cannot build.
    let made =
        command.env("PLIMSOLL_CACHE", dir.path().join("cache")).env("CARGO", "/bin/false").output().unwrap();
    assert_eq!(made.status.code(), Some(1), "{}", stderr(&made));
    assert!(stderr(&made).contains("Installing the embedded server."), "{}", stderr(&made));
}

#[test]
fn invalid_suites_are_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    scenarios(dir.path(), "suite_bad");
    let out = dir.path().join("out");
    for (name, text, parts) in [
        ("a.csv", "name,scenari\na,quick.yaml\n", &["a.csv", "line 1", "did you mean `scenario`?"][..]),
        (
            "a.csv",
            "name,scenario\na,quick.yaml\na,quick.yaml\n",
            &["line 3: there is a test `a` already", "line 2"],
        ),
        (
            "a.csv",
            "name,scenario\na,quick.yaml\nb,quik.yaml\n",
            &["line 3, test b", "there is no scenario `quik.yaml`"],
        ),
        ("a.csv", "name,scenario\n", &["a suite without a test"]),
        (
            "a.csv",
            "name,scenario,repetitions\na,quick.yaml,x\n",
            &["line 2, repetitions: `x` is not a whole number"],
        ),
        (
            "a.csv",
            "name,scenario,in_flight\na,quick.yaml,-4\n",
            &["line 2, in_flight: `-4` is not a whole number"],
        ),
        (
            "a.csv",
            "name,pipeline\na,kafka\n",
            &["line 2, test a: no pipeline `kafka` exists: name a YAML file"],
        ),
        (
            "a.csv",
            "name,scenario,server_cpus\na,quick.yaml,900\n",
            &["line 2, test a: server_cpus: CPU 900 cannot be used"],
        ),
        (
            "a.yaml",
            "tests:\n  - {name: a, scenario: quick.yaml, thread: 1}\n",
            &["line 2", "did you mean `threads`?"],
        ),
        (
            "a.yaml",
            "tests:\n  - {name: a, scenario: quick.yaml, server: embeded}\n",
            &["test 1, test a", "write a URI"],
        ),
    ] {
        let file = write(dir.path(), name, text);
        let output = plimsoll_with(&["suite", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{text}: {}", stderr(&output));
        for part in parts {
            assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
        }
        assert!(!out.exists(), "no directory is left");
    }
    let missing = plimsoll_with(&["suite", "write-csot"]);
    assert!(stderr(&missing).contains("the nearest shipped one is `write-cost`"), "{}", stderr(&missing));
    let nowhere = plimsoll_with(&["suite", "--resume", dir.path().to_str().unwrap()]);
    assert!(stderr(&nowhere).contains("name a directory that `plimsoll suite` made"), "{}", stderr(&nowhere));
    let listed = plimsoll_with(&["suite", "write-cost", "--list", "--repetitions", "2"]);
    assert!(stdout(&listed).contains("[9/16] one-writer, 2 of 2"), "{}", stdout(&listed));
}
