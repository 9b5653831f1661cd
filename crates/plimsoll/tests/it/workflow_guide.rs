//! Runs every command of the guide on durable workflows.

use std::fs;

use crate::program::{plimsoll, shared, stderr, stdout};
use crate::service::Service;
use crate::workflow::Store;

const GUIDE: &str = include_str!("../../../../docs/guides/workflows.md");

/// The text of the first block after a marker.
fn block<'a>(marker: &str, language: &str) -> &'a str {
    let rest = GUIDE.split_once(marker).unwrap().1;
    rest.split_once(&format!("```{language}\n")).unwrap().1.split_once("```").unwrap().0
}

/// The words of a command line with simple quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words
}

#[test]
fn every_command_of_the_guide_succeeds_in_its_order() {
    let (store, dir) = (Store::shared("workflow_guide"), tempfile::tempdir().unwrap());
    fs::write(dir.path().join("order.yaml"), block("Save this as `order.yaml`", "yaml")).unwrap();
    let commands = [block("Start a worker", "sh"), block("To add functions", "sh")].concat();
    let (mut worker, mut count) = (None, 0);
    for line in commands.lines() {
        count += 1;
        let words = words(line.strip_prefix("plimsoll ").unwrap());
        match words[1].as_str() {
            "worker" => {
                worker = Some(store.worker());
                continue;
            }
            // A reader of the guide types so slowly that the instance waits by then. The test waits for this
            // state.
            "explain" => drop(store.until("order-17", "running", "signal")),
            "audit" => {
                store.until("order-17", "done", "none");
            }
            _ => {}
        }
        let store = if words[1] == "definitions" { &[][..] } else { &store.0 };
        let output = plimsoll().current_dir(&dir).args(&words).args(store).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}{}", stdout(&output), stderr(&output));
        assert!(!stdout(&output).is_empty(), "{line}");
    }
    assert!(count > 14 && worker.is_some(), "{count} commands");
}

#[test]
fn the_guide_names_every_route_of_the_service_with_its_scope() {
    let line = block("## The service", "sh").trim();
    assert_eq!(line, "plimsoll serve workflow --server mongodb://localhost:27017");
    let service =
        Service::of("workflow", &["--server", &shared(), "--set", "database.name=workflow_guide_http"]);
    let document = service.client().get("/openapi.json");
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Some(scope) = operation["security"][0]["bearer"][0].as_str() else { continue };
            let row = GUIDE.lines().find(|row| {
                let cell = row.split('|').nth(1).unwrap_or_default();
                cell.contains(&method.to_uppercase()) && cell.contains(&format!("{path}`"))
            });
            let row = row.unwrap_or_else(|| panic!("the guide lacks {method} {path}"));
            assert!(row.contains(&format!("`{scope}`")), "{row}");
        }
    }
}
