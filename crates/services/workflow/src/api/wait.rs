//! Serves `GET /api/instances/{instance}/wait`: the next change of an instance.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{in_path, in_query, responses};
use plimsoll_service::{Answer, Call, Endpoint, Kind, Problem, Scope, Span, Takes, reply};
use serde_json::{Value, json};

use super::instance::shown;
use super::state::{Context, State};
use super::{problems, request};

/// The length of a wait, if the query gives none, and the longest one.
const WAIT_MAX: Span = Span::seconds(20);

/// Waits for the next change of an instance.
pub struct Wait;

impl Endpoint<State> for Wait {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/instances/{instance}/wait";
    const NAME: &'static str = "wait";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound, Kind::Busy];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let query = call.query(&["after", "for"])?;
        let instance = request::id(&call, "instance")?;
        let after = query.parsed("after")?.unwrap_or(0);
        let most = longest(context.limits.request);
        let wait = query.span("for")?.unwrap_or(most);
        if wait > most {
            return Err(Problem::field(
                "for",
                format!("must be {most} at most: ask again after each answer"),
            ));
        }
        let Ok(_place) = context.state.waits.try_acquire() else {
            return Err(
                Problem::new(Kind::Busy, "too many requests wait for a change: retry later").retry_after(1)
            );
        };
        let engine = &context.state.engine;
        let found = tokio::select! {
            found = engine.wait_for_change(instance, after, wait.duration()) => found,
            // The answer must not hold up the stop.
            () = context.stopping() => engine.wait_for_change(instance, after, Duration::ZERO).await,
        };
        let record = found.map_err(problems::of_client)?.ok_or_else(|| request::unknown(instance))?;
        let instance = shown(&context, &record).await?;
        Ok(reply::json(StatusCode::OK, &serde_json::to_value(instance).unwrap_or_default()))
    }

    fn describe() -> Value {
        json!({
            "summary": "Wait for a change of an instance",
            "description": "Answers once the instance has a version after a known one, or after the longest wait with the instance as it is. To wait \
                            for the end, ask again with the version of each answer.",
            "parameters": [
                in_path("instance", "The id."),
                in_query("after", "The known version (default 0, which answers at once)."),
                in_query("for", "The longest wait, such as 5s. At most and by default 20s, or two thirds of the longest request."),
            ],
            "responses": responses(&[(200, "The instance.", Some("Instance"))]),
        })
    }
}

/// The longest wait: it leaves the server a third of the time of a request for the answer.
fn longest(request: Span) -> Span {
    WAIT_MAX.min(Span::of(request.duration() * 2 / 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_before_the_time_of_the_request() {
        assert_eq!(longest(Span::seconds(30)), Span::seconds(20));
        assert_eq!(longest(Span::seconds(300)), Span::seconds(20));
        assert_eq!(longest(Span::seconds(3)), Span::seconds(2));
    }
}
