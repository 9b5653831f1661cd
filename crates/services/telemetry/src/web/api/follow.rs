//! `PUT /api/activity/{user}/following/{author}`: a user follows another one.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::describe::{in_path, responses};
use crate::web::endpoint::{Call, Endpoint, Takes};
use crate::web::reply::{self, Answer};
use crate::web::security::scope::Scope;
use crate::web::service::Service;

/// Follows.
pub struct Follow;

impl Endpoint for Follow {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/activity/{user}/following/{author}";
    const NAME: &'static str = "follow";
    const SCOPE: Option<Scope> = Some(Scope::ActivityWrite);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(service: Arc<Service>, call: Call) -> Answer {
        let (user, author) = (call.name("user")?, call.name("author")?);
        call.query(&[])?;
        service.feeds.follow(user, &[author.to_owned()]).await?;
        Ok(reply::empty(StatusCode::NO_CONTENT))
    }

    fn describe() -> Value {
        json!({
            "summary": "Follow a user",
            "description": "From the answer on the feed shows what the other one has done, also before. To follow twice is to \
                            follow once.",
            "parameters": [in_path("user", "Who follows."), in_path("author", "Who is followed.")],
            "responses": responses(&[(204, "The user follows.", None)]),
        })
    }
}
