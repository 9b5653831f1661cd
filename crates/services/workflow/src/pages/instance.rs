//! Serves `GET /instances/{instance}`: an instance, its history, and its definition as a diagram.

use std::sync::Arc;

use axum::http::Method;
use maud::{Markup, html};
use plimsoll_service::openapi::{in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Kind, Scope, Takes};
use plimsoll_workflow::definition::Definition;
use plimsoll_workflow::explain::{Reason, Visited};
use plimsoll_workflow::instance::Status;
use serde_json::{Value, json};

use super::diagram::diagram;
use super::frame::{due, encoded, moment, page};
use crate::api::state::{Context, State};
use crate::api::{instance, problems, request};
use crate::view::Instance;

/// The maximum number of characters of the data on the page.
const DATA_CHARS_MAX: usize = 20_000;

/// The page of one instance.
pub(crate) struct InstancePage;

impl Endpoint<State> for InstancePage {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/instances/{instance}";
    const NAME: &'static str = "instance_page";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let record = request::record(&context, &call).await?;
        let shown = instance::shown(&context, &record).await?;
        let definitions = context.state.engine.refresh().await.map_err(problems::of_store)?;
        let definition = definitions.iter().find(|one| one.version() == record.definition);
        Ok(page(&record.id, &content(&shown, definition)))
    }

    fn describe() -> Value {
        json!({
            "summary": "The page of an instance",
            "parameters": [in_path("instance", "The id.")],
            "responses": responses(&[(200, "HTML.", None)]),
        })
    }
}

fn content(instance: &Instance, definition: Option<&Definition>) -> Markup {
    let has_ended_well = instance.row.status == Status::Done;
    html! {
        h1 { (instance.row.instance) }
        (facts(instance))
        @if !instance.waits.is_empty() { h2 { "Waits" } (waits(&instance.waits)) }
        @match definition {
            Some(definition) => {
                h2 { "Steps" }
                div.diagram { (diagram(definition, &instance.history, has_ended_well)) }
            }
            None => p { "The store no longer has this version of the definition." }
        }
        h2 { "History" }
        @if instance.forgotten > 0 { p { (instance.forgotten) " older visits are forgotten." } }
        (history(&instance.history))
        h2 { "Data" }
        pre { (data(&instance.data)) }
    }
}

fn facts(instance: &Instance) -> Markup {
    let row = &instance.row;
    let optional = |name: &str, text: Option<&str>| html! { @if let Some(text) = text { tr { th { (name) } td { (text) } } } };
    html! {
        table { tbody {
            tr { th { "Status" } td { (row.status.name()) } }
            (optional("Business key", row.key.as_deref()))
            tr { th { "Definition" } td { (row.definition.name) " " (row.definition.hash.get(..12).unwrap_or_default()) } }
            @if let Some(ms) = instance.started_ms { tr { th { "Started" } td { (moment(ms)) } } }
            tr { th { "Changed" } td { (moment(row.changed_ms)) " (change " (instance.version) ")" } }
            @if let Some(parent) = &instance.parent {
                tr { th { "Parent" } td { a href=(format!("/instances/{}", encoded(&parent.instance))) { (parent.instance) } } }
            }
            @if let Some(error) = &instance.error { tr { th { "Last error" } td.error { (error) } } }
        } }
    }
}

fn waits(reasons: &[Reason]) -> Markup {
    html! {
        table.rows {
            thead { tr { th { "For" } th { "Step" } th { "Missing" } th { "Attempt" } th { "Next moment" } } }
            tbody { @for reason in reasons {
                tr {
                    td { (reason.kind) }
                    td { (reason.path.as_deref().unwrap_or_default()) }
                    td { (reason.missing.as_deref().unwrap_or_default()) }
                    td { @if let Some(attempt) = reason.attempt { (attempt) } }
                    td { (due(reason.due_ms)) }
                }
            } }
        }
    }
}

fn history(visits: &[Visited]) -> Markup {
    html! {
        table.rows {
            thead { tr { th { "Visit" } th { "Step" } th { "Entered" } th { "Length" } th { "End" } } }
            tbody { @for visit in visits {
                tr {
                    td { (visit.visit) }
                    td { (visit.path.as_deref().unwrap_or_default()) }
                    td { (moment(visit.entered_ms)) }
                    td { @if let Some(left_ms) = visit.left_ms { (left_ms.saturating_sub(visit.entered_ms)) " ms" } }
                    td { (visit.how.name()) }
                }
            } }
        }
    }
}

fn data(data: &Value) -> String {
    let text = serde_json::to_string_pretty(data).unwrap_or_default();
    let cut: String = text.chars().take(DATA_CHARS_MAX).collect();
    if cut.len() < text.len() { format!("{cut}\n… cut off: the API has all of it") } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_data_is_cut_and_says_so() {
        assert_eq!(data(&json!({"a": 1})), "{\n  \"a\": 1\n}");
        assert!(data(&json!("x".repeat(30_000))).ends_with("the API has all of it"));
    }
}
