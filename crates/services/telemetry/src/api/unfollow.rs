//! Serves `DELETE /api/activity/{user}/following/{author}`: unfollows a user.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, Scope, Takes,
    openapi::{in_path, responses},
    reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};

/// Makes a user unfollow another user.
pub struct Unfollow;

impl Endpoint<State> for Unfollow {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/api/activity/{user}/following/{author}";
    const NAME: &'static str = "unfollow";
    const SCOPE: Option<Scope> = Some(crate::scopes::ACTIVITY_WRITE);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let (user, author) = (call.name("user")?, call.name("author")?);
        call.query(&[])?;
        context.state.feeds.unfollow(user, author).await?;
        Ok(reply::empty(StatusCode::NO_CONTENT))
    }

    fn describe() -> Value {
        json!({
            "summary": "Unfollow a user",
            "description": "After the answer the feed shows no activities of the other user. Unfollowing twice is not an error.",
            "parameters": [in_path("user", "The follower."), in_path("author", "The followed user.")],
            "responses": responses(&[(204, "The user does not follow the other.", None)]),
        })
    }
}
