//! `DELETE /api/activity/{user}/following/{author}`: a user follows another one no more.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, Scope, Takes,
    openapi::{in_path, responses},
    reply,
};
use serde_json::{Value, json};

use super::scopes;
use super::state::{Context, State};

/// Unfollows.
pub struct Unfollow;

impl Endpoint<State> for Unfollow {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/api/activity/{user}/following/{author}";
    const NAME: &'static str = "unfollow";
    const SCOPE: Option<Scope> = Some(scopes::ACTIVITY_WRITE);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let (user, author) = (call.name("user")?, call.name("author")?);
        call.query(&[])?;
        context.state.feeds.unfollow(user, author).await?;
        Ok(reply::empty(StatusCode::NO_CONTENT))
    }

    fn describe() -> Value {
        json!({
            "summary": "Follow a user no more",
            "description": "From the answer on the feed shows nothing of the other one. Whoever does not follow may unfollow.",
            "parameters": [in_path("user", "Who follows no more."), in_path("author", "Who is followed no more.")],
            "responses": responses(&[(204, "The user does not follow.", None)]),
        })
    }
}
