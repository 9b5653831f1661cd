//! Drives the Python clients of SciCat, pyscicat and scitacean, through the life of a dataset.

use std::path::PathBuf;
use std::process::Command;

use plimsoll_host::Cache;

use super::bench::serve;

/// The Python environment with the clients.
fn python() -> PathBuf {
    let python = Cache::locate().unwrap().root().join("python-scicat/bin/python");
    assert!(python.exists(), "SciCat's clients are missing: run `cargo xtask setup` first");
    python
}

async fn drive(script: &'static str, name: &str) {
    let service = serve(name, "").await;
    let url = service.url();
    let path = format!("{}/tests/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let run = move || Command::new(python()).arg(path).arg(url).output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}", said.join("\n"));
    assert_eq!(said[0].trim(), "done");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pyscicat_works_unchanged() {
    drive("drive_pyscicat.py", "pyscicat").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scitacean_works_unchanged() {
    drive("drive_scitacean.py", "scitacean").await;
}
