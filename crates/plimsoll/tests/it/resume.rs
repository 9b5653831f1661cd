//! Tests resumed matrices: on the same machine, and printed again without a server.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{inserts, json, plimsoll_with, scenario, shared, stderr};

fn read(out: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(out.join("matrix.json")).unwrap()).unwrap()
}

#[test]
fn a_complete_matrix_is_printed_anywhere_and_not_resumed_on_another_machine() {
    let dir = tempfile::tempdir().unwrap();
    let axis = "matrix: {axes: [{name: batch, values: {one: {phases.0.load.insert.operation.insert.batch: 10}, \
                two: {phases.0.load.insert.operation.insert.batch: 20}}}]}\n";
    let file = scenario(dir.path(), &(inserts("gone_on", 10, "{documents: 100}") + axis));
    let (file, out, server) = (file.to_str().unwrap(), dir.path().join("matrix"), shared());
    let shown = out.to_str().unwrap();
    let made = plimsoll_with(&["run", file, "--server", &server, "--out", shown, "--quiet"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));

    // Pretends that another machine made it.
    let mut matrix = read(&out);
    assert!(matrix["environment"]["cores"].as_u64().unwrap() > 0);
    matrix["environment"]["cores"] = 1_000.into();
    fs::write(out.join("matrix.json"), matrix.to_string()).unwrap();
    let nowhere = "mongodb://127.0.0.1:1/?directConnection=true&serverSelectionTimeoutMS=300";
    let resume =
        |server: &str| plimsoll_with(&["run", file, "--server", server, "--resume", shown, "--json"]);
    let printed = resume(nowhere);
    assert_eq!((printed.status.code(), stderr(&printed).as_str()), (Some(0), ""));
    assert_eq!((json(&printed), &read(&out)["environment"]), (read(&out), &matrix["environment"]));

    fs::remove_dir_all(out.join("002-two")).unwrap();
    let refused = resume(&server);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("another number of cores (1000 and now"), "{}", stderr(&refused));
    assert!(!out.join("002-two").exists());
}
