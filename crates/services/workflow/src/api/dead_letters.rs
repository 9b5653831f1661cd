//! Serves `GET /api/dead-letters`: signals that could not be applied.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{count_in_query, in_query, responses};
use plimsoll_service::{Answer, Call, Endpoint, Problem, Scope, Takes, reply};
use plimsoll_workflow::instance::DeadLetter;
use plimsoll_workflow::port::{SignalKey, Store as _};
use serde_json::{Value, json};

use super::problems;
use super::state::{Context, State};

/// Dead letters on a page, if the query gives no limit.
const LIMIT: u32 = 50;

/// Lists dead letters.
pub struct DeadLetters;

impl Endpoint<State> for DeadLetters {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/dead-letters";
    const NAME: &'static str = "dead_letters";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let query = call.query(&["after_instance", "after_signal", "limit"])?;
        let after = match (query.get("after_instance"), query.get("after_signal")) {
            (Some(instance), Some(id)) => Some(SignalKey { instance: instance.into(), id: id.into() }),
            (None, None) => None,
            _ => return Err(Problem::field("after_signal", "belongs to after_instance: send both or none")),
        };
        let limit = query.count("limit", LIMIT, context.state.limits.page_max)? as usize;
        let found = context.state.engine.client.store.dead(after.as_ref(), limit).await;
        let found = found.map_err(problems::of_store)?;
        let next = found.last().filter(|_| found.len() >= limit);
        let next =
            next.map(|last| json!({"after_instance": last.signal.instance, "after_signal": last.signal.id}));
        let letters: Vec<_> = found.iter().map(shown).collect();
        Ok(reply::json(StatusCode::OK, &json!({"dead_letters": letters, "next": next})))
    }

    fn describe() -> Value {
        json!({
            "summary": "List dead letters",
            "description": "Signals that could not be applied, in order of instance and signal, with the reason.",
            "parameters": [
                in_query("after_instance", "Only letters after this one: from `next` of the previous page."),
                in_query("after_signal", "The signal of that letter."),
                count_in_query("limit", "Dead letters at most.", LIMIT),
            ],
            "responses": responses(&[(200, "A page.", Some("DeadLetters"))]),
        })
    }
}

fn shown(letter: &DeadLetter) -> Value {
    json!({
        "instance": letter.signal.instance,
        "signal": letter.signal.id,
        "reason": letter.reason.name(),
        "buried_ms": letter.buried_ms,
        "sent_ms": letter.signal.sent_ms,
        "body": letter.signal.body,
    })
}
