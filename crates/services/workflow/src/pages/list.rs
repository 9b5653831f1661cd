//! Serves `GET /`: a searchable list of instances.

use std::sync::Arc;

use axum::http::Method;
use maud::{Markup, html};
use plimsoll_service::openapi::{count_in_query, in_query, responses};
use plimsoll_service::{Answer, Call, Endpoint, Scope, Takes};
use plimsoll_workflow::port::Find;
use serde_json::{Value, json};

use super::frame::{due, encoded, moment, page};
use crate::api::instances::{self, KEYS};
use crate::api::state::{Context, State};
use crate::view::Row;

const STATUSES: [&str; 7] =
    ["running", "compensating", "parked", "quarantined", "done", "failed", "cancelled"];

/// The page with the list.
pub(crate) struct ListPage;

impl Endpoint<State> for ListPage {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/";
    const NAME: &'static str = "list_page";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let find = instances::find(&call.query(&KEYS)?, context.state.limits.page_max)?;
        let (rows, next) = instances::page(&context, &find).await?;
        Ok(page("Workflows", &content(&find, &rows, next.as_deref())))
    }

    fn describe() -> Value {
        json!({
            "summary": "The page with the list of instances",
            "parameters": [
                in_query("key", "As in /api/instances."),
                in_query("status", "As in /api/instances."),
                in_query("definition", "As in /api/instances."),
                in_query("after", "As in /api/instances."),
                count_in_query("limit", "Instances at most.", 50),
            ],
            "responses": responses(&[(200, "HTML.", None)]),
        })
    }
}

fn content(find: &Find, rows: &[Row], next: Option<&str>) -> Markup {
    html! {
        h1 { "Instances" }
        (search(find))
        table.rows {
            thead { tr { th { "Instance" } th { "Key" } th { "Definition" } th { "Status" } th { "Due" } th { "Changed" } } }
            tbody { @for row in rows { (line(row)) } }
        }
        @if rows.is_empty() { p { "No instance matches." } }
        @if let Some(after) = next { p { a href=(following(find, after)) { "Next page" } } }
    }
}

fn search(find: &Find) -> Markup {
    let chosen = find.status.map(|status| status.name());
    html! {
        form method="get" action="/" {
            label { "Key " input name="key" value=(find.key.as_deref().unwrap_or_default()); }
            label { "Definition " input name="definition" value=(find.definition.as_deref().unwrap_or_default()); }
            label {
                "Status "
                select name="status" {
                    option value="" { "any" }
                    @for status in STATUSES {
                        option value=(status) selected[chosen == Some(status)] { (status) }
                    }
                }
            }
            button { "Search" }
        }
    }
}

fn line(row: &Row) -> Markup {
    html! {
        tr {
            td { a href=(format!("/instances/{}", encoded(&row.instance))) { (row.instance) } }
            td { (row.key.as_deref().unwrap_or_default()) }
            td { (row.definition.name) }
            td { (row.status.name()) }
            td { (due(row.due_ms)) }
            td { (moment(row.changed_ms)) }
        }
    }
}

/// The link to the next page of the same search.
fn following(find: &Find, after: &str) -> String {
    let pairs = [
        ("key", find.key.as_deref()),
        ("definition", find.definition.as_deref()),
        ("status", find.status.map(|status| status.name())),
        ("after", Some(after)),
    ];
    let pairs = pairs.iter().filter_map(|(key, value)| Some(format!("{key}={}", encoded((*value)?))));
    format!("/?{}&limit={}", pairs.collect::<Vec<_>>().join("&"), find.limit)
}

#[cfg(test)]
mod tests {
    use plimsoll_workflow::definition::Version;
    use plimsoll_workflow::instance::Status;

    use super::*;

    #[test]
    fn a_hostile_id_is_escaped_and_its_link_is_encoded() {
        let row = Row {
            instance: "<b>\"&/x".into(),
            key: Some("<i>".into()),
            definition: Version { name: "a".into(), hash: String::new() },
            status: Status::Running,
            due_ms: None,
            changed_ms: 0,
        };
        let find = Find {
            key: Some("\"><script>".into()),
            status: Some(Status::Parked),
            limit: 1,
            ..Find::default()
        };
        let html = content(&find, &[row], Some("z&")).into_string();
        assert!(html.contains("href=\"/instances/%3Cb%3E%22%26%2Fx\">&lt;b&gt;&quot;&amp;/x</a>"), "{html}");
        assert!(!html.contains("<script") && !html.contains("<i>"), "{html}");
        assert!(
            html.contains("/?key=%22%3E%3Cscript%3E&amp;status=parked&amp;after=z%26&amp;limit=1"),
            "{html}"
        );
        assert!(html.contains("<option value=\"parked\" selected>"), "{html}");
    }
}
