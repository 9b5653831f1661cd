//! Identifies callers by their token, without a read of the database.

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use plimsoll_service::security::Sessions;
use serde::{Deserialize, Serialize};

use crate::Refusal;
use crate::access::{Caller, Strategy, User};

/// The cookie with the token of a browser that has logged in on a page.
pub(super) const COOKIE_NAME: &str = "catalogue-session";

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(rename = "_id")]
    id: String,
    username: String,
    email: String,
    #[serde(rename = "authStrategy")]
    strategy: Strategy,
    groups: Vec<String>,
    iat: i64,
    exp: i64,
}

impl Claims {
    /// The claims of a user who logs in now.
    pub(super) fn new(user: &User, now_ms: i64, life_s: i64) -> Self {
        let User { id, username, email, groups, strategy } = user.clone();
        let now = now_ms.div_euclid(1_000);
        Self { id, username, email, strategy, groups, iat: now, exp: now.saturating_add(life_s) }
    }
}

/// The caller of a request: by `Authorization: Bearer`, or by `access_token` in the query without such a header. An invalid token counts
/// as none.
///
/// # Errors
/// [`Refusal::SessionExpired`].
pub(super) fn caller(
    sessions: &Sessions,
    headers: &HeaderMap,
    access_token: Option<&str>,
    now_ms: i64,
) -> Result<Caller, Refusal> {
    let Some(token) = bearer(headers).or(access_token) else { return Ok(Caller::Anonymous) };
    of_token(sessions, token, now_ms)
}

/// The caller by the cookie of a browser. An invalid or expired cookie counts as none.
pub(super) fn of_cookie(sessions: &Sessions, headers: &HeaderMap, now_ms: i64) -> Caller {
    let token = cookies(headers, COOKIE_NAME).next();
    token.and_then(|token| of_token(sessions, token, now_ms).ok()).unwrap_or(Caller::Anonymous)
}

/// The values of the cookies with a name.
pub(super) fn cookies<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(known, _)| *known == name).map(|(_, value)| value)
}

fn of_token(sessions: &Sessions, token: &str, now_ms: i64) -> Result<Caller, Refusal> {
    let Some(claims) = sessions.verify::<Claims>(token) else { return Ok(Caller::Anonymous) };
    if claims.exp.saturating_mul(1_000) <= now_ms {
        return Err(Refusal::SessionExpired);
    }
    let Claims { id, username, email, groups, strategy, .. } = claims;
    Ok(Caller::User(User { id, username, email, groups, strategy }))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Sessions {
        Sessions::new(&[7; 32]).unwrap()
    }

    fn user() -> User {
        let groups = vec!["g".into()];
        User { id: "1".into(), username: "ann".into(), email: "a@x".into(), groups, strategy: Strategy::Oidc }
    }

    fn headers(value: &str) -> HeaderMap {
        [(AUTHORIZATION, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn a_token_identifies_its_user_until_it_expires() {
        let sessions = sessions();
        let token = sessions.sign(&Claims::new(&user(), 5_000, 10)).unwrap();
        let found = |now| caller(&sessions, &headers(&format!("bearer {token}")), None, now);
        assert_eq!(found(14_999), Ok(Caller::User(user())));
        assert_eq!(found(15_000), Err(Refusal::SessionExpired));
        assert_eq!(caller(&sessions, &HeaderMap::new(), Some(&token), 6_000), Ok(Caller::User(user())));
    }

    #[test]
    fn a_cookie_identifies_its_user_until_it_expires() {
        let sessions = sessions();
        let token = sessions.sign(&Claims::new(&user(), 5_000, 10)).unwrap();
        let found = |cookie: String, now| {
            of_cookie(&sessions, &[(COOKIE, cookie.parse().unwrap())].into_iter().collect(), now)
        };
        let own = format!("a=b; {COOKIE_NAME}={token}");
        assert_eq!(found(own.clone(), 14_999), Caller::User(user()));
        for (cookie, now) in [(own, 15_000), (format!("other={token}"), 0), (format!("{COOKIE_NAME}=x"), 0)] {
            assert_eq!(found(cookie, now), Caller::Anonymous);
        }
    }

    #[test]
    fn an_invalid_token_counts_as_none() {
        let foreign = Sessions::new(&[8; 32]).unwrap().sign(&Claims::new(&user(), 0, 1_000)).unwrap();
        for value in [format!("Bearer {foreign}"), "Bearer".into(), "Bearer x".into(), "Basic YTpi".into()] {
            assert_eq!(caller(&sessions(), &headers(&value), None, 0), Ok(Caller::Anonymous), "{value}");
        }
    }
}
