//! Serves `POST /api/activity/{user}/following`: follows several users.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, Problem, Scope, Takes, name,
    openapi::{body, in_path, responses},
    reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};

/// Makes a user follow several users.
pub struct FollowMany;

/// The largest number of users in one call.
const USERS_MAX: usize = 500;
const FIELD: &str = "userIds";

impl Endpoint<State> for FollowMany {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/api/activity/{user}/following";
    const NAME: &'static str = "follow_many";
    const SCOPE: Option<Scope> = Some(crate::scopes::ACTIVITY_WRITE);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let user = call.name("user")?;
        call.query(&[])?;
        let authors = read(&call.json()?)?;
        context.state.feeds.follow(user, &authors).await?;
        Ok(reply::empty(StatusCode::NO_CONTENT))
    }

    fn describe() -> Value {
        json!({
            "summary": "Follow several users",
            "parameters": [in_path("user", "Who follows.")],
            "requestBody": body("UserIds"),
            "responses": responses(&[(204, "The user follows all of them.", None)]),
        })
    }
}

fn read(json: &Value) -> Result<Vec<String>, Problem> {
    let fields = json.as_object().filter(|fields| fields.len() == 1);
    let list = fields.and_then(|fields| fields.get(FIELD)).and_then(Value::as_array);
    let list = list.filter(|list| (1..=USERS_MAX).contains(&list.len()));
    let list = list.ok_or_else(|| {
        Problem::field(
            FIELD,
            format!("the body is {{\"{FIELD}\": […]}} with 1 to {USERS_MAX} names, and nothing else"),
        )
    })?;
    let name = |value: &Value| {
        let name = value.as_str().ok_or_else(|| Problem::field(FIELD, "each must be a string"))?;
        match name::fault(name, name::BYTES_MAX) {
            Some(reason) => Err(Problem::field(FIELD, reason)),
            None => Ok(name.to_owned()),
        }
    };
    list.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_names_is_accepted() {
        assert_eq!(read(&json!({"userIds": ["ann", "bob"]})), Ok(vec!["ann".into(), "bob".into()]));
        for wrong in [
            json!([]),
            json!({}),
            json!({"userIds": []}),
            json!({"userIds": "ann"}),
            json!({"userIds": [{"$ne": null}]}),
            json!({"userIds": ["$where"]}),
            json!({"userIds": ["ann"], "$set": 1}),
            json!({"userIds": vec!["x"; 501]}),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}
