//! Logs users in at an issuer, as SciCat does: `/auth/oidc` leads to the issuer, and the issuer leads back to `/auth/oidc/callback`. A client
//! that already has a token of the issuer exchanges it at `/auth/oidc/token`.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE};
use axum::http::{Response, StatusCode, Uri};
use form_urlencoded::Serializer;
use plimsoll_service::{Routes, reply};
use serde_json::Value;

use super::action::{Of, Reply, Request, action};
use super::auth::session;
use super::identity::cookies;
use super::state::State;
use crate::Refusal;
use crate::oidc::{Fault, Now, Pending, Provider};

/// The cookie with the login that a browser has begun. No other endpoint reads it.
const COOKIE_NAME: &str = "oidc-login";

/// The longest body with a token of the issuer.
const TOKEN_BYTES_MAX: usize = 32 << 10;

action!(Begin, GET "/api/v3/auth/oidc", "begin_oidc_login", Nothing, "Log in at the issuer: leads the browser to it", begin);
action!(Callback, GET "/api/v3/auth/oidc/callback", "finish_oidc_login", Nothing, "Finish a login at the issuer", callback);
action!(Exchange, POST "/api/v3/auth/oidc/token", "exchange_oidc_token", Json, "Exchange an ID token of the issuer for a token", exchange);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<Begin>>().with::<Of<Callback>>().with::<Of<Exchange>>()
}

fn provider(request: &Request) -> Result<&Provider, Refusal> {
    let off = || Refusal::NotFound("this catalogue has no login at an issuer: set login.oidc".into());
    request.state().oidc.as_ref().ok_or_else(off)
}

fn now(request: &Request) -> Now {
    Now { ns: request.now_ns(), ms: request.now().timestamp_millis() }
}

async fn begin(request: Request) -> Result<Reply, Refusal> {
    let (provider, now) = (provider(&request)?, now(&request));
    let pending = Pending::begin(request.parameter("returnUrl"), now.ms).map_err(Refusal::bad)?;
    let url = provider.login_url(&pending, now).await?;
    let signed = request.state().sessions.sign(&pending).ok_or(Refusal::Unavailable)?;
    Ok(Reply::Page(redirect(&url, &cookie(provider, &signed, pending.until_s - now.ms.div_euclid(1_000)))?))
}

async fn callback(request: Request) -> Result<Reply, Refusal> {
    let (provider, now) = (provider(&request)?, now(&request));
    let parameter = |name: &str| request.parameter(name).filter(|text| !text.is_empty());
    let begun =
        begun(&request).filter(|it| it.is_finished_by(parameter("state").unwrap_or_default(), now.ms));
    let pending = begun.ok_or_else(|| refused("no login of this browser has this state"))?;
    let code =
        parameter("code").ok_or_else(|| refused(parameter("error").unwrap_or("the issuer sent no code")))?;
    let user = provider.user(code, &pending, now).await?;
    let session = session(request.state(), &user, request.now())?;
    let ended = cookie(provider, "", 0);
    Ok(Reply::Page(match &provider.section().success {
        Some(page) => redirect(&returning(page, &session, pending.return_url.as_deref()), &ended)?,
        None => private(reply::json(StatusCode::OK, &session), &ended)?,
    }))
}

async fn exchange(request: Request) -> Result<Reply, Refusal> {
    if request.call.body.len() > TOKEN_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    let (provider, body) = (provider(&request)?, request.json().await?);
    let token = body.get("idToken").and_then(Value::as_str).filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| Refusal::bad("idToken needs the ID token of the issuer as a text"))?;
    let user = provider.user_of_token(token, now(&request)).await?;
    Ok(Reply::Created(session(request.state(), &user, request.now())?))
}

/// The login that the browser of a request has begun.
fn begun(request: &Request) -> Option<Pending> {
    cookies(&request.call.headers, COOKIE_NAME).find_map(|value| request.state().sessions.verify(value))
}

/// The page of the frontend, with the token as SciCat's frontend reads it.
fn returning(page: &str, session: &Value, return_url: Option<&str>) -> String {
    let text = |name: &str| session.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut query = Serializer::new(String::new());
    query.append_pair("access-token", text("access_token")).append_pair("user-id", text("userId"));
    if let Some(url) = return_url {
        query.append_pair("returnUrl", url);
    }
    let separator = if page.contains('?') { '&' } else { '?' };
    format!("{page}{separator}{}", query.finish())
}

/// The cookie, for the callback alone and for a time in seconds.
fn cookie(provider: &Provider, value: &str, life_s: i64) -> String {
    let callback: Uri = provider.section().callback.parse().unwrap_or_default();
    let secure = if callback.scheme_str() == Some("https") { "; Secure" } else { "" };
    let path = callback.path();
    format!("{COOKIE_NAME}={value}; Path={path}; Max-Age={life_s}; HttpOnly; SameSite=Lax{secure}")
}

fn redirect(url: &str, cookie: &str) -> Result<Response<Body>, Refusal> {
    let mut response = private(reply::empty(StatusCode::FOUND), cookie)?;
    insert(&mut response, LOCATION, url)?;
    Ok(response)
}

/// An answer that no cache keeps, with a cookie.
fn private(mut response: Response<Body>, cookie: &str) -> Result<Response<Body>, Refusal> {
    insert(&mut response, CACHE_CONTROL, "no-store")?;
    insert(&mut response, REFERRER_POLICY, "no-referrer")?;
    insert(&mut response, SET_COOKIE, cookie)?;
    Ok(response)
}

fn insert(response: &mut Response<Body>, name: HeaderName, value: &str) -> Result<(), Refusal> {
    let value = HeaderValue::from_str(value).map_err(|_| Refusal::bad("a URL has invalid characters"))?;
    response.headers_mut().insert(name, value);
    Ok(())
}

fn refused(why: &str) -> Refusal {
    tracing::warn!(why = crate::refusal::shortened(why), "a login at the issuer was refused");
    Refusal::Unauthorized
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy => Self::Busy,
            Fault::Refused(why) => refused(&why),
            Fault::Unreachable(why) => {
                tracing::warn!(why, "the issuer failed");
                Self::NoIssuer
            }
        }
    }
}
