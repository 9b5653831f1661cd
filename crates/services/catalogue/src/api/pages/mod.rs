//! Makes read-only pages for browsers, without scripts: a list of datasets with a search, and a dataset with its files and its history.
//! They show the datasets that the API shows to the same caller: to a browser without a token, the published ones.

mod dataset;
mod list;
mod login;
mod style;

use axum::http::StatusCode;
use maud::{Markup, html};
use plimsoll_service::{Routes, page};
use serde_json::Value;

use super::action::{Reply, Request};
use super::state::State;
use crate::Refusal;

/// The longest value on a page, in characters.
const VALUE_CHARS_MAX: usize = 500;

/// Adds the pages.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    style::add(login::add(dataset::add(list::add(routes))))
}

/// A page: its title and its content.
struct Shown {
    title: String,
    content: Markup,
}

/// The answer with the page that `show` makes for the user of the browser.
async fn of_browser<F: Future<Output = Result<Shown, Refusal>>>(
    request: Request,
    show: impl FnOnce(Request) -> F,
) -> Result<Reply, Refusal> {
    let request = request.of_browser();
    let user = request.caller.user().map(|user| user.username.clone());
    answered(show(request).await, user.as_deref())
}

/// The answer with a page, or with the reason why it is not shown. Its header names the user of the page.
fn answered(shown: Result<Shown, Refusal>, user: Option<&str>) -> Result<Reply, Refusal> {
    let (status, Shown { title, content }) = match shown {
        Ok(shown) => (StatusCode::OK, shown),
        Err(refusal) => {
            let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, refused(&refusal))
        }
    };
    Ok(Reply::Page(page::page(status, &header(user), &title, &content)))
}

fn header(user: Option<&str>) -> Markup {
    html! {
        a href="/" { "Datasets" }
        @match user {
            None => { a href="/login" { "Log in" } }
            Some(name) => { form method="post" action="/logout" { (name) " " button { "Log out" } } }
        }
    }
}

fn refused(refusal: &Refusal) -> Shown {
    let title = match refusal {
        Refusal::Foreign | Refusal::Forbidden => "This dataset is not yours, and not published",
        Refusal::NotFound(_) => "There is no such dataset",
        _ => "The page cannot be shown",
    };
    let content = html! {
        h1 { (title) }
        p.error { (refusal.to_string()) }
        p { a href="/" { "All datasets" } }
    };
    Shown { title: title.to_owned(), content }
}

/// A value in a cell: a text without quotes, a list with commas, other values as JSON. A long value is cut off.
fn text(value: &Value) -> String {
    let whole = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
            items.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    let mut chars = whole.chars();
    let short: String = chars.by_ref().take(VALUE_CHARS_MAX).collect();
    if chars.next().is_none() { short } else { format!("{short}…") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_a_text_of_bounded_length() {
        for (value, shown) in [
            (json!("a"), "a"),
            (json!(null), ""),
            (json!(["a", 5]), "a, 5"),
            (json!([{"a": 1}]), r#"[{"a":1}]"#),
            (json!(0.5), "0.5"),
        ] {
            assert_eq!(text(&value), shown);
        }
        assert_eq!(text(&json!("é".repeat(9_000))).chars().count(), VALUE_CHARS_MAX + 1);
    }
}
