//! Runs operations on a target for the tests.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use plimsoll_http::setup::{Context, Workloads};
use plimsoll_http::{Http, Setup};
use plimsoll_load::arrivals::Share;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::interval::Reply;

/// Runs on a single-threaded runtime, as a worker does.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Builds a setup from YAML: the section, and the requests with their names.
pub fn setup(section: &str, requests: &[(&str, &str)]) -> Arc<Setup> {
    setup_with(section, requests, &|_, _| Err("there is no workload here".to_owned()))
}

/// As [`setup`], with workloads.
pub fn setup_with(section: &str, requests: &[(&str, &str)], workloads: Workloads<'_>) -> Arc<Setup> {
    let section = serde_saphyr::from_str(section).unwrap();
    let request = |(name, yaml): &(&str, &str)| ((*name).to_owned(), serde_saphyr::from_str(yaml).unwrap());
    let requests: Vec<_> = requests.iter().map(request).collect();
    let context = Context { seed: 1, start_ms: 0, base: Path::new("/") };
    Arc::new(Setup::build_with(&section, &requests, context, workloads).unwrap())
}

/// Creates the target of the only worker.
pub fn target(section: &str, requests: &[(&str, &str)]) -> Http {
    Http::new(setup(section, requests), Share::WHOLE)
}

/// Sends one operation on a lane.
pub async fn send(target: &Http, lane: &mut <Http as Target>::Lane, operation: usize, number: u64) -> Reply {
    assert_eq!(target.prepare(lane, operation, number), Prepared::Ready);
    target.send(lane).await
}
