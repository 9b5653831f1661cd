//! Serves `POST /api/telemetry/ingest/batch`: stores many readings, each with its own outcome.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, InvalidField, Kind, Problem, Scope, Takes, blocking,
    openapi::{reference, responses},
    reply,
};
use serde_json::{Value, json};

use super::batch::{Batch, Item};
use super::problems;
use super::state::{Context, State};
use crate::reading::Read;
use crate::readings::{IngestError, Stored};

/// Stores many readings.
pub struct IngestBatch;

/// A larger body is parsed on a blocking thread.
const INLINE_BYTES_MAX: usize = 32 << 10;

impl Endpoint<State> for IngestBatch {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/api/telemetry/ingest/batch";
    const NAME: &'static str = "ingest_batch";
    const SCOPE: Option<Scope> = Some(crate::scopes::TELEMETRY_WRITE);
    const TAKES: Takes = Takes::Batch;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let items = items(context.clone(), call).await?;
        let mut outcome = Outcome::default();
        let (mut lines, mut readings) = (Vec::new(), Vec::new());
        for (line, item) in items {
            match item {
                Ok(reading) => {
                    lines.push(line);
                    readings.push(reading);
                }
                Err(invalid) => outcome.refuse(line, &invalid),
            }
        }
        if !readings.is_empty() {
            match context.state.readings.ingest_many(readings).await {
                Ok(results) => lines.into_iter().zip(results).for_each(|(line, it)| outcome.add(line, it)),
                Err(error) => lines.into_iter().for_each(|line| outcome.add(line, Err(error.clone()))),
            }
        }
        outcome.answer()
    }

    fn describe() -> Value {
        let array = json!({"type": "array", "items": reference("Reading")});
        let line = json!({"type": "string", "description": "One reading a line."});
        json!({
            "summary": "Store many readings",
            "description": "Each reading has its own outcome. Refused readings are listed under `failed` with their line or \
                            array index, from 1. Readings with `retry` may be sent again unchanged. If none is stored, the \
                            list is part of a problem, which has at most 100 of its items. `known` counts the readings that \
                            were stored before: `merged` those that added metrics, and `differs` lists those with another \
                            value of a stored metric, which keeps its value.",
            "requestBody": {"required": true, "content": {
                "application/json": {"schema": array},
                "application/x-ndjson": {"schema": line},
            }},
            "responses": responses(&[
                (201, "All are stored, now or before.", Some("BatchOutcome")),
                (207, "Some are stored.", Some("BatchOutcome")),
            ]),
        })
    }
}

async fn items(context: Arc<Context>, call: Call) -> Result<Vec<Item>, Problem> {
    let large = call.body.len() > INLINE_BYTES_MAX;
    let find = move || {
        // Captures the whole call, so its memory stays reserved until the body is parsed.
        let call = &call;
        let batch = Batch {
            media: call.media,
            body: &call.body,
            readings_max: context.state.limits.batch_readings_max as usize,
            read: Read { now_ms: context.clock.now_ms(), limits: &context.state.accepted },
        };
        batch.items()
    };
    if !large {
        return find();
    }
    let failed = || Problem::new(Kind::Internal, "the batch was not read: the log says why");
    blocking::run(find).await.ok_or_else(failed)?
}

/// The outcome of a batch.
#[derive(Default)]
struct Outcome {
    new: usize,
    known: usize,
    merged: usize,
    /// The lines of readings with another value than the stored one.
    differs: Vec<usize>,
    failed: Vec<Value>,
    /// The last error of the store.
    fault: Option<IngestError>,
}

impl Outcome {
    fn refuse(&mut self, line: usize, invalid: &InvalidField) {
        let detail = &invalid.reason;
        self.failed.push(json!({"line": line, "field": invalid.field, "detail": detail, "retry": false}));
    }

    fn add(&mut self, line: usize, result: Result<Stored, IngestError>) {
        match result {
            Ok(Stored::New) => self.new += 1,
            Ok(known) => {
                self.known += 1;
                self.merged += usize::from(known == Stored::Merged);
                if known == Stored::Differs {
                    self.differs.push(line);
                }
            }
            Err(error) => {
                let detail = match &error {
                    IngestError::Store(_) => problems::NOT_ACKNOWLEDGED.to_owned(),
                    other => other.to_string(),
                };
                self.failed.push(json!({"line": line, "detail": detail, "retry": true}));
                self.fault = Some(error);
            }
        }
    }

    fn answer(mut self) -> Answer {
        self.failed.sort_by_key(|it| it["line"].as_u64());
        let stored = self.new + self.known;
        let received = stored + self.failed.len();
        if stored > 0 {
            if let Some(IngestError::Store(fault)) = &self.fault {
                problems::log(fault);
            }
            let status = if self.failed.is_empty() { StatusCode::CREATED } else { StatusCode::MULTI_STATUS };
            let differs = |line: &usize| json!({"line": line, "stored": Stored::Differs.name()});
            let differs: Vec<Value> = self.differs.iter().map(differs).collect();
            let body = json!({
                "received": received, "new": self.new, "known": self.known, "merged": self.merged,
                "differs": differs, "failed": self.failed,
            });
            return Ok(reply::json(status, &body));
        }
        let problem = match self.fault {
            Some(fault) => fault.into(),
            None => Problem::new(Kind::Invalid, format!("all {received} readings are invalid")),
        };
        Err(problem.with("received", received.into()).with_list("failed", self.failed))
    }
}
