//! Reads the committed results of older versions: format 1 stays readable.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use plimsoll_measure::comparison::Comparison;
use plimsoll_measure::matrix::Matrix;
use plimsoll_measure::run::Run;
use plimsoll_measure::suite::Suite;
use serde::de::DeserializeOwned;

/// The committed files of this name.
fn committed(name: &str) -> Vec<PathBuf> {
    fn walk(directory: &Path, name: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, name, found);
            } else if path.file_name().is_some_and(|file| file == name) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../runs"), name, &mut found);
    found.sort();
    found
}

fn check<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let files: Vec<T> = committed(name).into_iter().map(read).collect();
    assert!(!files.is_empty(), "no {name}");
    files
}

#[test]
fn committed_runs_are_read_with_their_old_keys() {
    let runs: Vec<Run> = check("run.json");
    assert!(runs.iter().any(|run| !run.client.calibration_null_per_s.is_empty()));
    assert!(runs.iter().any(|run| !run.client.calibration_ping_ns.is_empty()));
    let lines = || runs.iter().filter_map(|run| run.line.as_ref());
    assert!(lines().any(|line| !line.bottlenecks.is_empty()));
    assert!(lines().any(|line| !line.unchecked.is_empty()));
}

#[test]
fn committed_tables_are_read_with_their_old_keys() {
    check::<Matrix>("matrix.json");
    check::<Comparison>("comparison.json");
    let suites: Vec<Suite> = check("suite.json");
    assert!(suites.iter().flat_map(|suite| &suite.tests).any(|test| test.reference.is_some()));
}
