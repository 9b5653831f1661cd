//! Serves `PUT /api/activity/{user}/following/{author}`: follows a user.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, Scope, Takes,
    openapi::{in_path, responses},
    reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};

/// Makes a user follow another user.
pub struct Follow;

impl Endpoint<State> for Follow {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/activity/{user}/following/{author}";
    const NAME: &'static str = "follow";
    const SCOPE: Option<Scope> = Some(crate::scopes::ACTIVITY_WRITE);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let (user, author) = (call.name("user")?, call.name("author")?);
        call.query(&[])?;
        context.state.feeds.follow(user, &[author.to_owned()]).await?;
        Ok(reply::empty(StatusCode::NO_CONTENT))
    }

    fn describe() -> Value {
        json!({
            "summary": "Follow a user",
            "description": "After the answer the feed also shows the earlier activities of the followed user. Following twice \
                            is not an error.",
            "parameters": [in_path("user", "The follower."), in_path("author", "The followed user.")],
            "responses": responses(&[(204, "The user follows.", None)]),
        })
    }
}
