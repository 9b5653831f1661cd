//! Serves `POST /api/telemetry/ingest/batch`: stores many readings, each with its own outcome.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, InvalidField, Kind, Problem, Scope, Takes, blocking,
    openapi::{reference, responses},
    reply,
};
use serde_json::{Value, json};

use super::batch::{Batch, Listed, Readings};
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
        let Readings { valid, invalid } = readings(context.clone(), call).await?;
        let mut outcome = Outcome::refusing(invalid);
        let (lines, readings): (Vec<_>, Vec<_>) = valid.into_iter().unzip();
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
                            list is part of a problem. Lists have at most 100 items; `omitted` and `differs_omitted` count \
                            the others, and `omitted_retry` those that may be sent again: then send the whole batch again. `known` counts the readings that \
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

async fn readings(context: Arc<Context>, call: Call) -> Result<Readings, Problem> {
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
        batch.readings()
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
    differs: Listed<usize>,
    /// The invalid readings.
    refused: Listed<Value>,
    /// The valid readings that were not stored.
    failed: Listed<Value>,
    /// The last error of the store.
    fault: Option<IngestError>,
}

impl Outcome {
    /// The outcome of a batch with these invalid readings.
    fn refusing(invalid: Listed<(usize, InvalidField)>) -> Self {
        let Listed { items, omitted } = invalid;
        let item = |(line, InvalidField { field, reason })| json!({"line": line, "field": field, "detail": reason, "retry": false});
        Self { refused: Listed { items: items.into_iter().map(item).collect(), omitted }, ..Self::default() }
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

    /// The list of readings that are not stored, and the numbers of readings that the list leaves out, by their names in an answer.
    /// Readings that may be sent again come first in the list, because a client drops the others.
    fn failures(&mut self) -> (Vec<Value>, Vec<(&'static str, usize)>) {
        let (mut failed, refused) = (std::mem::take(&mut self.failed), std::mem::take(&mut self.refused));
        let omitted_retry = failed.omitted;
        refused.items.into_iter().for_each(|item| failed.push(item));
        failed.omitted += refused.omitted;
        failed.items.sort_by_key(|it| it["line"].as_u64());
        let counts = [("omitted", failed.omitted), ("omitted_retry", omitted_retry)];
        (failed.items, counts.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    fn answer(mut self) -> Answer {
        let (stored, missing) = (self.new + self.known, self.failed.len() + self.refused.len());
        let received = stored + missing;
        let (failed, omitted) = self.failures();
        if stored > 0 {
            if let Some(IngestError::Store(fault)) = &self.fault {
                problems::log(fault);
            }
            let status = if missing == 0 { StatusCode::CREATED } else { StatusCode::MULTI_STATUS };
            let differs = |line: &usize| json!({"line": line, "stored": Stored::Differs.name()});
            let differs: Vec<Value> = self.differs.items.iter().map(differs).collect();
            let mut body = json!({
                "received": received, "new": self.new, "known": self.known, "merged": self.merged,
                "differs": differs, "failed": failed,
            });
            let more =
                [("differs_omitted", self.differs.omitted)].into_iter().filter(|(_, count)| *count > 0);
            omitted.into_iter().chain(more).for_each(|(key, count)| body[key] = count.into());
            return Ok(reply::json(status, &body));
        }
        let problem = match self.fault {
            Some(fault) => fault.into(),
            None => Problem::new(Kind::Invalid, format!("all {received} readings are invalid")),
        };
        let problem = problem.with("received", received.into()).with("failed", failed.into());
        Err(omitted.into_iter().fold(problem, |problem, (key, count)| problem.with(key, count.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::LISTED_MAX;
    use super::*;

    #[test]
    fn readings_that_may_be_sent_again_are_listed_before_invalid_ones() {
        let failures = |busy: usize| {
            let mut outcome = Outcome::default();
            (0..2 * LISTED_MAX).for_each(|line| outcome.refused.push(json!({"line": line, "retry": false})));
            (0..busy).for_each(|line| outcome.add(1_000 + line, Err(IngestError::Closing)));
            outcome.failures()
        };
        let (failed, omitted) = failures(7);
        let again = failed.iter().filter(|it| it["retry"] == true).count();
        assert_eq!((failed.len(), again, omitted), (LISTED_MAX, 7, vec![("omitted", LISTED_MAX + 7)]));
        let (failed, omitted) = failures(LISTED_MAX + 3);
        assert!(failed.iter().all(|it| it["retry"] == true), "{failed:?}");
        assert_eq!(omitted, [("omitted", 2 * LISTED_MAX + 3), ("omitted_retry", 3)]);
    }
}
