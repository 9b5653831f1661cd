//! Serves `GET /api/instances`: finds instances.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{count_in_query, in_query, responses};
use plimsoll_service::query::Query;
use plimsoll_service::{Answer, Call, Endpoint, Problem, Scope, Takes, reply};
use plimsoll_workflow::port::{Find, Store as _};
use serde_json::{Value, json};

use super::problems;
use super::state::{Context, State};
use crate::view::{Row, status_of};

/// The keys of the query.
pub(crate) const KEYS: [&str; 5] = ["key", "status", "definition", "after", "limit"];
/// Instances on a page, if the query gives no limit.
const LIMIT: u32 = 50;

/// Finds instances.
pub struct Instances;

impl Endpoint<State> for Instances {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/instances";
    const NAME: &'static str = "instances";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let find = find(&call.query(&KEYS)?, context.state.limits.page_max)?;
        let (rows, next) = page(&context, &find).await?;
        Ok(reply::json(StatusCode::OK, &json!({"instances": rows, "next": next})))
    }

    fn describe() -> Value {
        json!({
            "summary": "Find instances",
            "description": "In order of their ids.",
            "parameters": [
                in_query("key", "Only with this business key."),
                in_query("status", "Only with this status."),
                in_query("definition", "Only of the definition of this name."),
                in_query("after", "Only ids after this one: `next` of the previous page."),
                count_in_query("limit", "Instances at most.", LIMIT),
            ],
            "responses": responses(&[(200, "A page.", Some("Instances"))]),
        })
    }
}

/// The selection of a query. Empty values select everything, as forms of browsers send them.
pub(crate) fn find(query: &Query, page_max: u32) -> Result<Find, Problem> {
    let text = |key: &str| query.get(key).filter(|text| !text.is_empty()).map(str::to_owned);
    let status = text("status").map(|name| status_of(&name)).transpose();
    Ok(Find {
        key: text("key"),
        status: status.map_err(|words| Problem::field("status", words))?,
        definition: text("definition"),
        after: text("after"),
        limit: query.count("limit", LIMIT, page_max)? as usize,
    })
}

/// The rows of a selection, and the last id if more may follow.
pub(crate) async fn page(context: &Context, find: &Find) -> Result<(Vec<Row>, Option<String>), Problem> {
    let records = context.state.engine.client.store.list(find).await.map_err(problems::of_store)?;
    let next = records.last().filter(|_| records.len() >= find.limit).map(|record| record.id.clone());
    Ok((records.iter().map(Row::of).collect(), next))
}
