//! Turns errors into problems for the caller.

use plimsoll_service::{Kind, Problem};
use plimsoll_workflow::file::ReadError;
use plimsoll_workflow::port::StoreError;
use plimsoll_workflow::worker::ClientError;
use serde_json::{Value, json};

use crate::engine::DeployError;

/// The retry time after a failure of the store, in seconds.
const RETRY_AFTER_S: u64 = 1;

/// The store's message stays in the log, because it may contain private names.
pub(crate) fn of_store(error: StoreError) -> Problem {
    tracing::warn!(%error, "the store failed");
    match error {
        StoreError::Unavailable(_) => {
            let detail = "the store did not answer: the request may be stored; repeat it with the same id";
            Problem::new(Kind::Unavailable, detail).retry_after(RETRY_AFTER_S)
        }
        StoreError::Refused(_) => {
            Problem::new(Kind::Internal, "the store refused the operation: the log says why")
        }
    }
}

pub(super) fn of_client(error: ClientError) -> Problem {
    let detail = error.to_string();
    match error {
        ClientError::Store(error) => of_store(error),
        ClientError::Busy(_) => Problem::new(Kind::Busy, detail).retry_after(RETRY_AFTER_S),
        ClientError::Dead => Problem::new(Kind::Unavailable, detail).retry_after(RETRY_AFTER_S),
        ClientError::Taken { .. } => Problem::new(Kind::Conflict, detail),
        ClientError::UnusableDefinition { .. } => Problem::new(Kind::Unavailable, detail),
        ClientError::UnknownDefinition(_) => Problem::new(Kind::NotFound, detail),
        _ => Problem::new(Kind::Invalid, detail),
    }
}

pub(super) fn of_deploy(error: DeployError) -> Problem {
    match error {
        DeployError::Function(words) => Problem::new(Kind::Invalid, words),
        DeployError::Client(error) => of_client(error),
    }
}

/// The problem of a definition's text: every problem has its line and column.
pub(super) fn of_text(error: &ReadError) -> Problem {
    let detail = error.to_string();
    let problem = Problem::new(Kind::Invalid, detail);
    let ReadError::Problems(problems) = error else { return problem };
    let one = |(place, of): &(Option<(usize, usize)>, plimsoll_workflow::program::Problem)| {
        let (line, column) = place.unzip();
        json!({"line": line, "column": column, "path": of.path, "problem": of.words})
    };
    problem.with_list("problems", problems.iter().map(one).collect::<Vec<Value>>())
}
