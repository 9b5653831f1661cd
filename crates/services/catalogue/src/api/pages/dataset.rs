//! Serves `GET /datasets/{pid}`: a dataset with its metadata, a page of its files, and its history.

use maud::{Markup, html};
use plimsoll_service::Routes;
use plimsoll_service::page::encoded;
use serde_json::{Map, Value};

use super::{Shown, of_browser, text};
use crate::Refusal;
use crate::api::action::{Of, Request, action};
use crate::api::datasets::readable;
use crate::api::state::State;
use crate::documents::dataset::{Version, show};
use crate::documents::{history, json};
use crate::query::SKIP_MAX;

/// The files on a page.
const FILES: u64 = 100;
/// The maximum number of rows of metadata on a page.
const ROWS_MAX: usize = 1_000;
/// The fields that a page shows, in order, with their labels.
const FACTS: [(&str, &str); 16] = [
    ("pid", "PID"),
    ("type", "Type"),
    ("description", "Description"),
    ("owner", "Owner"),
    ("contactEmail", "Contact"),
    ("principalInvestigators", "Principal investigators"),
    ("ownerGroup", "Group"),
    ("creationTime", "Created"),
    ("creationLocation", "Location"),
    ("sourceFolder", "Folder"),
    ("keywords", "Keywords"),
    ("proposalIds", "Proposals"),
    ("sampleIds", "Samples"),
    ("license", "License"),
    ("numberOfFiles", "Files"),
    ("size", "Bytes"),
];

action!(Page, GET "/datasets/{pid}", "dataset_page", Nothing, "The page of a dataset", |it| of_browser(it, dataset));

/// Adds the page.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<Page>>()
}

/// A dataset on a page.
struct Detail {
    body: Map<String, Value>,
    image: Option<String>,
    files: Vec<Value>,
    files_total: u64,
    skip: u64,
    history: Vec<Value>,
}

async fn dataset(request: Request) -> Result<Shown, Refusal> {
    let stored = readable(&request).await?;
    let (store, pid) = (&request.state().store, request.part("pid"));
    let skip =
        request.parameter("skip").map_or(Some(0), |text| text.parse().ok().filter(|skip| *skip <= SKIP_MAX));
    let skip = skip.ok_or_else(|| Refusal::bad(format!("skip needs a whole number up to {SKIP_MAX}")))?;
    let room = |bytes| request.take(bytes);
    let files = store.files(pid, skip, FILES, &|bytes| request.take_files(bytes)).await?;
    let detail = Detail {
        body: show(&stored, Version::V4),
        image: store.thumbnail(pid, &room).await?.filter(|image| image.starts_with("data:image/")),
        files: files.files.iter().map(|(_, file)| json::shown(file)).collect(),
        files_total: files.total,
        skip,
        history: store.history(&stored, &room).await?.iter().map(history::show).collect(),
    };
    let title = detail.body.get("datasetName").map(text).unwrap_or_default();
    Ok(Shown { content: content(&title, &detail), title })
}

fn content(title: &str, detail: &Detail) -> Markup {
    html! {
        h1 { (title) }
        @if let Some(image) = &detail.image { img src=(image) alt="The image of the dataset"; }
        (facts(&detail.body))
        @if let Some(metadata) = detail.body.get("scientificMetadata") { (self::metadata(metadata)) }
        h2 { "Files" }
        (files(detail))
        h2 { "History" }
        (changes(&detail.history))
    }
}

fn facts(body: &Map<String, Value>) -> Markup {
    let given = FACTS.iter().filter_map(|(name, label)| Some((label, text(body.get(*name)?))));
    html! {
        table { tbody { @for (label, value) in given.filter(|(_, value)| !value.is_empty()) {
            tr { th scope="row" { (label) } td { (value) } }
        } } }
    }
}

fn metadata(metadata: &Value) -> Markup {
    let mut rows = Vec::new();
    flatten(String::new(), metadata, &mut rows);
    html! {
        @if !rows.is_empty() {
            h2 { "Metadata" }
            table { tbody { @for (name, value) in &rows { tr { th scope="row" { (name) } td { (value) } } } } }
            @if rows.len() == ROWS_MAX { p { "The API has all metadata." } }
        }
    }
}

/// The leaves of an object: the names on the way to each, and its value with its unit.
fn flatten(name: String, value: &Value, rows: &mut Vec<(String, String)>) {
    let Some(fields) = value.as_object() else {
        if rows.len() < ROWS_MAX {
            rows.push((name, text(value)));
        }
        return;
    };
    if let Some(value) = fields.get("value").filter(|value| !value.is_object()) {
        let unit = fields.get("unit").map(text).unwrap_or_default();
        let measured = format!("{} {unit}", text(value)).trim_end().to_owned();
        return flatten(name, &measured.into(), rows);
    }
    for (field, value) in fields {
        if rows.len() == ROWS_MAX {
            return;
        }
        let path = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
        flatten(path, value, rows);
    }
}

fn files(detail: &Detail) -> Markup {
    let pid = detail.body.get("pid").and_then(Value::as_str).unwrap_or_default();
    let link = |skip: u64| format!("/datasets/{}?skip={skip}", encoded(pid));
    let next = detail.skip + detail.files.len() as u64;
    html! {
        @if detail.files.is_empty() { p { "No files." } } @else {
            p { (detail.skip + 1) " to " (next) " of " (detail.files_total) }
            table.rows {
                thead { tr { th { "Path" } th.number { "Bytes" } th { "Changed" } } }
                tbody { @for file in &detail.files {
                    tr { td { (text(&file["path"])) } td.number data-unit="bytes" { (text(&file["size"])) } td { (text(&file["time"])) } }
                } }
            }
        }
        @if detail.skip > 0 { p { a href=(link(detail.skip.saturating_sub(FILES))) { "Previous files" } } }
        @if next < detail.files_total && next <= SKIP_MAX { p { a href=(link(next)) { "Next files" } } }
    }
}

fn changes(history: &[Value]) -> Markup {
    html! {
        @if history.is_empty() { p { "No changes." } } @else {
            table.rows {
                thead { tr { th { "Time" } th { "By" } th { "Field" } th { "Before" } th { "After" } } }
                tbody { @for entry in history { @for (name, change) in entry.as_object().into_iter().flatten() {
                    @if change.is_object() {
                        tr {
                            td { (text(&entry["updatedAt"])) }
                            td { (text(&entry["updatedBy"])) }
                            td { (name) }
                            td { (text(&change["previousValue"])) }
                            td { (text(&change["currentValue"])) }
                        }
                    }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_flat_and_has_units() {
        let mut rows = Vec::new();
        let metadata =
            json!({"energy": {"value": 5, "unit": "keV"}, "beam": {"size": {"x": 1}}, "note": "plain"});
        flatten(String::new(), &metadata, &mut rows);
        let expected = [("energy", "5 keV"), ("beam.size.x", "1"), ("note", "plain")];
        assert_eq!(rows, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let wide: Value = (0..5_000).map(|n| (n.to_string(), json!({"value": n, "unit": ""}))).collect();
        let mut rows = Vec::new();
        flatten(String::new(), &wide, &mut rows);
        assert_eq!((rows.len(), rows[0].1.as_str()), (ROWS_MAX, "0"));
    }

    #[test]
    fn hostile_values_are_escaped() {
        let hostile = "<script>\"&";
        let detail = Detail {
            body: json!({"pid": hostile, "owner": hostile, "scientificMetadata": {hostile: hostile}})
                .as_object()
                .unwrap()
                .clone(),
            image: Some(format!("data:image/png;{hostile}")),
            files: vec![json!({"path": hostile, "size": 1})],
            files_total: 1_000,
            skip: 0,
            history: vec![json!({"updatedBy": hostile, hostile: {"previousValue": hostile}})],
        };
        let html = content(hostile, &detail).into_string();
        assert!(!html.contains("<script") && !html.contains("\"&\""), "{html}");
        assert!(html.contains("/datasets/%3Cscript%3E%22%26?skip=1"), "{html}");
    }
}
