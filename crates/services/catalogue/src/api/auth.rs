//! Logs users in and describes them.

use bson::DateTime;
use plimsoll_service::Routes;
use serde_json::{Value, json};

use super::action::{Of, Reply, Request, action};
use super::identity::Claims;
use super::state::State;
use crate::Refusal;
use crate::access::User;
use crate::moment;

/// The longest body of a login, because everyone may send one.
pub(super) const LOGIN_BYTES_MAX: usize = 4 << 10;

action!(Login, POST "/api/v3/auth/login", "login", Json, "Log in with an account", login);
action!(Logout, POST "/api/v3/auth/logout", "logout", Json, "Log out: the client forgets its token", logout);
action!(Whoami, GET "/api/v3/auth/whoami", "whoami", Nothing, "The user of the token", own);
action!(Own, GET "/api/v3/users/my/self", "own_user", Nothing, "The user of the token", own);
action!(Identity, GET "/api/v3/users/my/identity", "own_identity", Nothing, "The groups of the user", identity);
action!(OfUser, GET "/api/v3/users/{id}/useridentity", "user_identity", Nothing, "The groups of a user", of_user);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    let routes = routes.with::<Of<Login>>().with::<Of<Logout>>().with::<Of<Whoami>>();
    routes.with::<Of<Own>>().with::<Of<Identity>>().with::<Of<OfUser>>()
}

async fn login(request: Request) -> Result<Reply, Refusal> {
    if request.call.body.len() > LOGIN_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    let (state, body) = (request.state(), request.json().await?);
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let user = authenticated(&request, text("username"), text("password"))?;
    Ok(Reply::Created(session(state, user, request.now())?))
}

/// A token for the user, and its life in seconds.
///
/// # Errors
/// The groups of the user do not fit into a token.
pub(super) fn token(state: &State, user: &User, now: DateTime) -> Result<(String, i64), Refusal> {
    let life_s = i64::try_from(state.token.duration().as_secs()).unwrap_or(i64::MAX);
    let claims = Claims::new(user, now.timestamp_millis(), life_s);
    Ok((state.sessions.sign(&claims).ok_or(Refusal::Unauthorized)?, life_s))
}

/// The answer to a login: a token for the user.
///
/// # Errors
/// Those of [`token`].
pub(super) fn session(state: &State, user: &User, now: DateTime) -> Result<Value, Refusal> {
    let (token, life_s) = token(state, user, now)?;
    Ok(json!({
        "access_token": token, "id": token, "expires_in": life_s, "ttl": life_s, "created": moment::text(now),
        "userId": user.id, "user": described(user),
    }))
}

/// The user of an account.
///
/// # Errors
/// The password is wrong, or too many were.
pub(super) fn authenticated<'a>(
    request: &'a Request,
    name: &str,
    password: &str,
) -> Result<&'a User, Refusal> {
    let (state, address, now_ns) = (request.state(), request.call.address, request.now_ns());
    if let Some(guesses) = &state.guesses {
        guesses.look(address, name, now_ns).map_err(Refusal::Guessed)?;
    }
    state.accounts.login(name, password).ok_or_else(|| {
        state.guesses.iter().for_each(|guesses| guesses.failed(address, name, now_ns));
        Refusal::Unauthorized
    })
}

async fn logout(_: Request) -> Result<Reply, Refusal> {
    Ok(Reply::Found(json!({"logout": "successful"})))
}

async fn own(request: Request) -> Result<Reply, Refusal> {
    Ok(Reply::Found(described(request.user()?)))
}

async fn identity(request: Request) -> Result<Reply, Refusal> {
    Ok(Reply::Found(identified(request.user()?)))
}

/// A user may ask about itself only.
async fn of_user(request: Request) -> Result<Reply, Refusal> {
    let user = request.user()?;
    if user.id == request.part("id") { Ok(Reply::Found(identified(user))) } else { Err(Refusal::Forbidden) }
}

fn described(user: &User) -> Value {
    json!({
        "_id": user.id, "id": user.id, "username": user.username, "email": user.email,
        "authStrategy": user.strategy,
    })
}

fn identified(user: &User) -> Value {
    json!({
        "userId": user.id, "externalId": user.id, "authStrategy": user.strategy, "provider": user.strategy,
        "profile": {
            "id": user.id, "username": user.username, "displayName": user.username, "email": user.email,
            "emails": [{"value": user.email}], "accessGroups": user.groups,
        },
    })
}
