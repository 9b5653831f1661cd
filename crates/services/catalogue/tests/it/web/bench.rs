//! Starts catalogues for the tests.

use std::fs;

use plimsoll_catalogue::serve::{Catalogue, Running, start};
use plimsoll_catalogue::settings::Typed;
use plimsoll_service::{Product, settings};
use serde_json::{Value, json};

use crate::server;

/// The accounts of the tests; each password is the name and `-secret`.
const ACCOUNTS: [(&str, &[&str]); 4] =
    [("admin", &["admin"]), ("ann", &["group1"]), ("bob", &["group2"]), ("cleaner", &["deleters"])];

/// Starts a catalogue with an empty database of this name, and more settings.
pub async fn serve(name: &str, more: &str) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let account = |(name, groups): (&str, &[&str])| json!({"username": name, "email": format!("{name}@x.org"), "password": format!("{name}-secret"), "role": groups});
    let accounts: Value = ACCOUNTS.into_iter().map(account).collect();
    fs::write(directory.path().join("accounts.json"), accounts.to_string()).unwrap();
    let text = format!(
        "listen: 127.0.0.1:0\ndatabase: {{uri: '{}', name: web_{name}}}\nlogin: {{accounts_file: accounts.json}}\n\
         roles: {{admin_groups: [admin], delete_groups: [deleters], create_dataset_with_pid_groups: ['#all']}}\n{more}",
        server::uri(server::shared())
    );
    let typed: Typed = settings::read(&text).unwrap();
    start(Catalogue::build(typed, directory.path()).unwrap()).await.unwrap()
}

/// The body of a raw dataset of version 3.
pub fn raw(pid: &str) -> Value {
    json!({
        "pid": pid, "owner": "bench", "ownerGroup": "group1", "accessGroups": ["readers"], "contactEmail": "a@b.cc",
        "principalInvestigator": "bench", "creationLocation": "/bench", "sourceFolder": "/data/x",
        "creationTime": "2025-01-01T00:00:00.000Z", "type": "raw", "datasetName": "x",
        "scientificMetadata": {"field_0": {"value": "Sample data 0", "unit": "unit"}, "length": {"value": 5, "unit": "mm"}},
    })
}

/// The body of a block.
pub fn block(pid: &str, files: usize) -> Value {
    let file = |n: usize| json!({"path": format!("{n}.dat"), "size": 2, "time": "2017-07-24T13:56:30.000Z", "chk": "c"});
    let files: Vec<Value> = (0..files).map(file).collect();
    json!({"datasetId": pid, "size": 2 * files.len(), "chkAlg": "sha256", "dataFileList": files})
}
