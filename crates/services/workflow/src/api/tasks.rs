//! Serves `GET /api/tasks`: the inbox.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{count_in_query, in_query, responses};
use plimsoll_service::{Answer, Call, Endpoint, Problem, Scope, Takes, reply};
use plimsoll_workflow::port::{Inbox, Store as _};
use serde_json::{Value, json};

use super::problems;
use super::state::{Context, State};
use crate::view::{task, task_status_of};

/// Tasks on a page, if the query gives no limit.
const LIMIT: u32 = 50;

/// Lists tasks.
pub struct Tasks;

impl Endpoint<State> for Tasks {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/tasks";
    const NAME: &'static str = "tasks";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let query = call.query(&["status", "role", "assignee", "instance", "after", "limit"])?;
        let text = |key: &str| query.get(key).map(str::to_owned);
        let status = query.get("status").map(task_status_of).transpose();
        let inbox = Inbox {
            status: status.map_err(|words| Problem::field("status", words))?,
            roles: text("role").into_iter().collect(),
            assignee: text("assignee"),
            instance: text("instance"),
            after: text("after"),
            limit: query.count("limit", LIMIT, context.state.limits.page_max)? as usize,
        };
        let rows = context.state.engine.client.store.tasks(&inbox).await.map_err(problems::of_store)?;
        let next = rows.last().filter(|_| rows.len() >= inbox.limit).map(|row| row.id.clone());
        let tasks: Vec<_> = rows.iter().map(task).collect();
        Ok(reply::json(StatusCode::OK, &json!({"tasks": tasks, "next": next})))
    }

    fn describe() -> Value {
        json!({
            "summary": "List tasks",
            "description": "In order of their ids.",
            "parameters": [
                in_query("status", "Only with this status: open, completed or closed."),
                in_query("role", "Only open to this role."),
                in_query("assignee", "Only assigned to this person."),
                in_query("instance", "Only of this instance."),
                in_query("after", "Only ids after this one: `next` of the previous page."),
                count_in_query("limit", "Tasks at most.", LIMIT),
            ],
            "responses": responses(&[(200, "A page.", Some("Tasks"))]),
        })
    }
}
