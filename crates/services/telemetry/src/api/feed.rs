//! Serves `GET /api/activity/{user}`: the feed of a user, page by page.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::{
    Answer, Call, Endpoint, Problem, Scope, Takes,
    openapi::{count_in_query, in_path, in_query, responses},
    reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};
use crate::feeds::{Activity, Cursor, FeedQuery};

/// Reads a feed.
pub struct ReadFeed;

/// The default number of activities on a page.
const LIMIT: u32 = 50;

impl Endpoint<State> for ReadFeed {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/activity/{user}";
    const NAME: &'static str = "feed";
    const SCOPE: Option<Scope> = Some(crate::scopes::ACTIVITY_READ);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let user = call.name("user")?.to_owned();
        let query = call.query(&["limit", "cursor"])?;
        let limit = query.count("limit", LIMIT, context.state.limits.page_max)?;
        let no_cursor =
            || Problem::field("cursor", "is invalid: send `next` of the previous page, unchanged");
        let cursor = query.get("cursor").map(|text| Cursor::of(text).ok_or_else(no_cursor)).transpose()?;
        let memory = context.answers.reservation();
        let _running = context.state.queries.begin().await?;
        let feed = context.state.read_feeds.read(&FeedQuery { user, cursor, limit }, &memory).await?;
        reply::large_json(feed.activities.len(), memory, move || {
            let activities: Vec<Value> = feed.activities.iter().map(Activity::to_json).collect();
            json!({"activities": activities, "next": feed.next.as_ref().map(Cursor::text)})
        })
        .await
    }

    fn describe() -> Value {
        json!({
            "summary": "The feed of a user",
            "description": "The activities of the user and of the users followed now, newest first, by time and then by id. \
                            An unknown user has an empty feed.",
            "parameters": [
                in_path("user", "The user."),
                count_in_query("limit", "The maximum number of activities on the page.", LIMIT),
                in_query("cursor", "`next` of the previous page. New activities cause no duplicates."),
            ],
            "responses": responses(&[(200, "A page.", Some("FeedPage"))]),
        })
    }
}
