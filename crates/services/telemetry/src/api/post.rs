//! Serves `POST /api/activity`: stores an activity.
//!
//! A retry is answered 201 too, as for readings.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, Kind, Scope, Takes,
    openapi::{body, responses},
    reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};
use crate::feeds::{Activity, Posted};

/// Stores an activity.
pub struct Post;

impl Endpoint<State> for Post {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/api/activity";
    const NAME: &'static str = "post_activity";
    const SCOPE: Option<Scope> = Some(crate::scopes::ACTIVITY_WRITE);
    const TAKES: Takes = Takes::Json;
    const REFUSES: &'static [Kind] = &[Kind::Conflict];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let future_ms_max = context.state.feeds.settings().future_ms_max;
        let activity = Activity::parse(&call.json()?, context.clock.now_ms(), future_ms_max)?;
        let (id, at_ms) = (activity.id.clone(), activity.at_ms);
        let answer = match context.state.feeds.post(activity).await? {
            Posted::New => json!({"stored": "new", "activityId": id, "timestamp": at_ms}),
            Posted::Known(known) => {
                json!({"stored": "known", "activityId": known.id, "timestamp": known.at_ms})
            }
        };
        Ok(reply::json(StatusCode::CREATED, &answer))
    }

    fn describe() -> Value {
        json!({
            "summary": "Post an activity",
            "description": "The answer follows when the activity is stored and visible to every follower. A retry with the \
                            same activityId stores it once, unchanged; without one the service creates an id.",
            "requestBody": body("Activity"),
            "responses": responses(&[(201, "The activity is stored, now or before.", Some("Posted"))]),
        })
    }
}
