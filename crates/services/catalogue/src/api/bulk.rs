//! Creates many datasets, one per line.

use std::sync::Arc;

use bson::{Document, doc};
use plimsoll_service::{Line, Routes, strict_json};
use serde_json::{Value, json};

use super::action::{Of, Reply, Request, action, apart};
use super::datasets::made;
use super::state::State;
use super::stream::{HELD_FACTOR, unread};
use crate::Refusal;
use crate::documents::dataset::Version;

/// The maximum number of datasets in a request, because the answer has a result for each.
const LINES_MAX: usize = 10_000;
/// The maximum number of datasets in one command.
const BATCH_MAX: usize = 200;
/// The bytes of lines after which a command is sent.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// The approximate size of a result, in bytes.
const RESULT_BYTES: usize = 128;

action!(Bulk, POST "/api/v4/datasets/bulk", "create_datasets", Stream, "Create datasets, one per line", bulk);

/// Adds the endpoint.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<Bulk>>()
}

/// The results of the lines, and the datasets that are not stored yet.
#[derive(Default)]
struct Work {
    /// The number of each line, and its PID.
    results: Vec<(u64, Result<String, Refusal>)>,
    waiting: Vec<(usize, Document)>,
    waiting_bytes: usize,
}

async fn bulk(request: Request) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let request = Arc::new(request);
    let mut lines = request.call.lines().ok_or_else(|| Refusal::bad("the body is missing"))?;
    let mut work = Work::default();
    while let Some(line) = lines.next().await.map_err(|problem| unread(&problem))? {
        if work.results.len() == LINES_MAX {
            return Err(Refusal::bad(format!(
                "send at most {LINES_MAX} lines at once; the first ones are stored"
            )));
        }
        work.add(&request, line).await;
        let has_room = lines.hold(HELD_FACTOR * work.waiting_bytes).is_ok();
        if !has_room || work.waiting.len() == BATCH_MAX || work.waiting_bytes > BATCH_BYTES_MAX {
            work.store(&request).await?;
        }
    }
    work.store(&request).await?;
    Ok(Reply::Created(work.body()))
}

impl Work {
    async fn add(&mut self, request: &Arc<Request>, line: Line) {
        let (Line { number, text }, maker) = (line, request.clone());
        let bytes = text.len();
        let dataset = apart(bytes, move || {
            let body = strict_json::parse(&text).map_err(|error| Refusal::bad(error.to_string()))?;
            maker.take(RESULT_BYTES)?;
            made(&maker, &body, Version::V4)
        });
        let result = match dataset.await {
            Ok(dataset) => {
                let pid = dataset.get_str("_id").unwrap_or_default().to_owned();
                self.waiting.push((self.results.len(), dataset));
                self.waiting_bytes += bytes;
                Ok(pid)
            }
            Err(refusal) => Err(refusal),
        };
        self.results.push((number, result));
    }

    async fn store(&mut self, request: &Request) -> Result<(), Refusal> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (places, mut datasets): (Vec<usize>, Vec<Document>) =
            std::mem::take(&mut self.waiting).into_iter().unzip();
        self.waiting_bytes = 0;
        // A line may wait for long before it is stored. The stamps are the time of the storage, because the job that collects the
        // keys of metadata follows them.
        let now = request.now();
        datasets.iter_mut().for_each(|it| it.extend(doc! {"createdAt": now, "updatedAt": now}));
        for (place, refusal) in request.state().store.create_many(&datasets).await? {
            if let Some((_, result)) = places.get(place).and_then(|place| self.results.get_mut(*place)) {
                *result = Err(refusal);
            }
        }
        Ok(())
    }

    fn body(&self) -> Value {
        let created = self.results.iter().filter(|(_, result)| result.is_ok()).count();
        let result = |(number, result): &(u64, Result<String, Refusal>)| match result {
            Ok(pid) => json!({"line": number, "statusCode": 201, "pid": pid}),
            Err(refusal) => {
                let mut body = refusal.body();
                body["line"] = (*number).into();
                body["statusCode"] = refusal.status().into();
                body
            }
        };
        let results: Vec<Value> = self.results.iter().map(result).collect();
        json!({"created": created, "failed": results.len() - created, "results": results})
    }
}
