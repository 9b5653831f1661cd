//! What nobody else should read is told nowhere: neither on the terminal nor in a file or on a page.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_measure::run::{FORMAT, Operation, Run, ScenarioFacts};

use crate::program::{inserts, plimsoll_with, scenario, stderr, stdout};

/// A run of a service that asks for a token.
fn keep(dir: &Path, token: &str) -> PathBuf {
    let scenario = ScenarioFacts { hash: format!("of {}", token.len()), ..ScenarioFacts::default() };
    let operation =
        Operation { count: 1_000, documents: 1_000, documents_per_s: 9.0, ..Operation::default() };
    let operations = [("insert".to_owned(), operation)].into();
    let run = Run {
        format: FORMAT,
        id: format!("id-{}", token.len()),
        command: "run".into(),
        scenario,
        operations,
        ..Run::default()
    };
    let path = dir.join(format!("run-{}", token.len()));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    let yaml = format!("http:\n  auth: {{bearer: {{token: {token}}}}}\n  headers: {{x-tenant: {token}}}\n");
    fs::write(path.join("scenario.yaml"), yaml).unwrap();
    path
}

#[test]
fn two_runs_with_different_tokens_are_compared_without_a_word_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["swordfish", "open-sesame"].map(|token| keep(dir.path(), token));
    let out = dir.path().join("comparison");
    let words = ["compare", a.to_str().unwrap(), b.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let refused = plimsoll_with(&words);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let forced = plimsoll_with(&[&words[..], &["--force"]].concat());
    assert_eq!(forced.status.code(), Some(0), "{}", stderr(&forced));
    let files =
        ["comparison.json", "comparison.html"].map(|file| fs::read_to_string(out.join(file)).unwrap());
    let said = [stderr(&refused), stdout(&forced), stderr(&forced)];
    for text in said.iter().chain(&files) {
        assert!(!text.contains("swordfish") && !text.contains("open-sesame"), "{text}");
    }
    for path in ["http.auth.bearer.token", "http.headers.x-tenant"] {
        assert!(stderr(&refused).contains(path) && files[0].contains(path), "{path}: {}", stderr(&refused));
    }
}

#[test]
fn words_that_are_not_understood_are_not_repeated_with_what_is_secret_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("secrets", 10, "{documents: 100}"));
    let output =
        plimsoll_with(&["ab", file.to_str().unwrap(), "--b", "http.auth={bearer: {token: swordfish}}"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("http.auth=…") && !said.contains("swordfish"), "{said}");
}
