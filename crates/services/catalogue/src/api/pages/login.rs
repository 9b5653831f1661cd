//! Serves `/login` and `/logout`: a browser gets a token in a cookie, which only pages read.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{Response, StatusCode};
use maud::html;
use plimsoll_service::{Routes, page, reply};

use super::{Shown, answered, header};
use crate::Refusal;
use crate::api::action::{Of, Reply, Request, action};
use crate::api::auth::{LOGIN_BYTES_MAX, authenticated, token};
use crate::api::identity::COOKIE_NAME;
use crate::api::state::State;

action!(Page, GET "/login", "login_page", Nothing, "The page to log in", |_| async { answered(Ok(form(None)), None) });
action!(Login, POST "/login", "log_in_on_page", Form, "Log in on the page", login);
action!(Logout, POST "/logout", "log_out_on_page", Form, "Log out on the page", logout);

/// The longest token of a cookie: browsers drop a cookie of more than 4,096 bytes.
const TOKEN_BYTES_MAX: usize = 3_900;

/// Adds the pages.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<Page>>().with::<Of<Login>>().with::<Of<Logout>>()
}

/// The form, with the reason why the last login failed.
fn form(failed: Option<&str>) -> Shown {
    let content = html! {
        h1 { "Log in" }
        @if let Some(failed) = failed { p.error role="alert" { (failed) } }
        form method="post" action="/login" {
            label { "Name " input name="username" autocomplete="username" required; }
            label { "Password " input name="password" type="password" autocomplete="current-password" required; }
            button { "Log in" }
        }
    };
    Shown { title: "Log in".to_owned(), content }
}

async fn login(request: Request) -> Result<Reply, Refusal> {
    if request.call.body.len() > LOGIN_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    let field = |wanted: &str| {
        let mut fields = form_urlencoded::parse(&request.call.body);
        fields.find_map(|(name, value)| (name == wanted).then(|| value.into_owned())).unwrap_or_default()
    };
    let user = match authenticated(&request, &field("username"), &field("password")) {
        Ok(user) => user,
        Err(refusal) => return refused(refusal),
    };
    let state = request.state();
    let (token, life_s) = token(state, user, request.now())?;
    if token.len() > TOKEN_BYTES_MAX {
        let why = "The groups of this account do not fit into a cookie: use a client of the API.";
        return Ok(failed(StatusCode::BAD_REQUEST, why));
    }
    to_the_list(&token, life_s, is_secure(&request))
}

/// The form with the reason why a login was refused.
///
/// # Errors
/// A refusal that another login does not help.
fn refused(refusal: Refusal) -> Result<Reply, Refusal> {
    match refusal {
        Refusal::Unauthorized => Ok(failed(StatusCode::UNAUTHORIZED, "The name or the password is wrong.")),
        Refusal::Guessed(_) => {
            Ok(failed(StatusCode::TOO_MANY_REQUESTS, "Too many logins failed: wait some minutes."))
        }
        other => Err(other),
    }
}

/// Whether the browser uses TLS, to the service or to a proxy in front of it.
fn is_secure(request: &Request) -> bool {
    let scheme = request.call.headers.get("x-forwarded-proto");
    request.state().is_secure || scheme.is_some_and(|scheme| scheme == "https")
}

async fn logout(request: Request) -> Result<Reply, Refusal> {
    to_the_list("", 0, is_secure(&request))
}

fn failed(status: StatusCode, why: &str) -> Reply {
    let Shown { title, content } = form(Some(why));
    Reply::Page(page::page(status, &header(None), &title, &content))
}

/// Leads the browser to the list, with a cookie that lives for a time in seconds. Scripts cannot read it, and no other site can use it.
fn to_the_list(token: &str, life_s: i64, is_secure: bool) -> Result<Reply, Refusal> {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{COOKIE_NAME}={token}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Lax{secure}");
    let mut response: Response<Body> = reply::empty(StatusCode::SEE_OTHER);
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static("/"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(SET_COOKIE, HeaderValue::from_str(&cookie).map_err(|_| Refusal::Unavailable)?);
    Ok(Reply::Page(response))
}
