//! Serves `GET /api/audit`: checks the invariants of the store, within a bound.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{count_in_query, responses};
use plimsoll_service::{Answer, Call, Endpoint, Scope, Takes, reply};
use plimsoll_workflow::audit;
use serde_json::{Value, json};

use super::problems;
use super::state::{Context, State};

/// Rows that an audit reads, if the query gives no limit.
const LIMIT: u32 = 10_000;
/// The maximum number of rows that an audit reads. `plimsoll workflow audit` reads all.
const LIMIT_MAX: u32 = 100_000;

/// Audits the store.
pub struct Audit;

impl Endpoint<State> for Audit {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/audit";
    const NAME: &'static str = "audit";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let limit = call.query(&["limit"])?.count("limit", LIMIT, LIMIT_MAX)? as usize;
        let engine = &context.state.engine;
        let report = audit::within(&*engine.client.store, engine.now_ms(), limit).await;
        let report = report.map_err(problems::of_store)?;
        Ok(reply::json(StatusCode::OK, &serde_json::to_value(report).unwrap_or_default()))
    }

    fn describe() -> Value {
        json!({
            "summary": "Audit the store",
            "description": "Counts instances, signals and dead letters, and lists broken invariants. `is_cut` tells that the bound was reached: \
                            `plimsoll workflow audit` has none. In a store at work, findings may be work in flight.",
            "parameters": [count_in_query("limit", "Instances, tasks, signals and dead letters to read at most, each.", LIMIT)],
            "responses": responses(&[(200, "The report.", Some("Report"))]),
        })
    }
}
