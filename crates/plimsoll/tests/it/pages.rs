//! Looks at the pages of the services in headless Chromium: on a small screen and a large one, in light and dark mode, by keyboard, and
//! with the rules of accessibility of axe.

use std::process::Command;

use plimsoll_host::Cache;
use serde_json::json;

use crate::catalogue::{self, of_guide};
use crate::service::Service;
use crate::workflow_http::{self, order, until};

/// Visits pages of a service; the first has a search form. Logs in on the page `/login`, if `login` is `name:password`.
#[track_caller]
fn visit(service: &Service, login: &str, paths: &[&str]) {
    let browser = Cache::locate().unwrap().root().join("browser");
    assert!(browser.is_dir(), "the browser is missing: run `cargo xtask setup` first");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pages.mjs");
    let mut node = Command::new("node");
    node.arg(script).arg(browser).arg(format!("http://{}", service.address)).arg(login).args(paths);
    let output = node.output().unwrap();
    let (said, failed) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, format!("{} pages visited\n", paths.len()), "{failed}");
}

#[test]
fn the_pages_of_the_catalogue_are_usable() {
    let dir = tempfile::tempdir().unwrap();
    let service = of_guide(dir.path(), "catalogue_pages");
    let mut client = service.client();
    let headers = format!("authorization: Bearer {}\r\n", catalogue::token(&mut client));
    let dataset = json!({
        "pid": "p/1", "type": "raw", "datasetName": "a scan of a crystal with a long name", "owner": "ann",
        "ownerGroup": "admin", "contactEmail": "a@b.cc", "principalInvestigator": "ann", "creationLocation": "/x",
        "sourceFolder": "/a/folder/with/a/long/path", "creationTime": "2026-01-01T12:00:00Z", "isPublished": true,
        "keywords": ["crystal"], "scientificMetadata": {"energy": {"value": 12.4, "unit": "keV"}},
    });
    let image = json!({"thumbnail": format!("data:image/png;base64,{PIXEL}"), "caption": "c"});
    let file = json!({"path": "directory/file-1.h5", "size": 5, "time": "2026-01-01T12:00:00Z"});
    for (method, path, body) in [
        ("POST", "/api/v3/datasets", dataset),
        ("POST", "/api/v3/datasets/p%2F1/attachments", image),
        ("POST", "/api/v3/origdatablocks", json!({"datasetId": "p/1", "size": 5, "dataFileList": [file]})),
        ("PATCH", "/api/v3/datasets/p%2F1", json!({"comment": "a change for the history"})),
    ] {
        let (status, answer) = client.send_with(&headers, method, path, &body.to_string()).unwrap();
        assert!(status < 300, "{path}: {answer}");
    }
    visit(&service, "admin:27f5fd86ae68fe74", &["/", "/?values=on", "/datasets/p%2F1", "/login"]);
}

/// A PNG of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn the_pages_of_workflows_are_usable() {
    let service = workflow_http::service("workflow_pages");
    let mut client = service.client();
    workflow_http::put(&mut client, "/api/definitions/order", &order(), 201);
    let start = json!({"definition": "order", "key": "k 1", "input": {"item": "a book"}});
    workflow_http::put(&mut client, "/api/instances/o%2Fa", &start, 201);
    until(&mut client, "/api/instances/o%2Fa", |it| it["waits"][0]["kind"] == "task");
    visit(&service, "", &["/", "/instances/o%2Fa"]);
}
