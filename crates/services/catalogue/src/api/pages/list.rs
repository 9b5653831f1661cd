//! Serves `GET /`: a searchable list of datasets, the newest first.

use bson::{Document, doc};
use futures_util::future::join;
use maud::{Markup, html};
use plimsoll_service::Routes;
use plimsoll_service::page::encoded;
use serde_json::{Map, Value, json};

use super::{Shown, of_browser, text};
use crate::Refusal;
use crate::api::action::{Of, Request, action};
use crate::api::state::State;
use crate::documents::dataset::{Version, show};
use crate::query::page::Cursor;
use crate::query::{facets, full};
use crate::storage::Error;

/// The datasets on a page.
const LIMIT: u64 = 25;
/// The number up to which the datasets are counted.
const COUNT_MAX: u32 = 10_000;
/// The fields of a search: the name in the address, the name in the query, and the label.
const SEARCHED: [(&str, &str, &str); 4] = [
    ("text", "text", "Text"),
    ("type", "type", "Type"),
    ("owner", "owner", "Owner"),
    ("keyword", "keywords", "Keyword"),
];
/// The fields whose values are counted on demand.
const COUNTED: &str = r#"["type","keywords"]"#;

action!(Page, GET "/", "list_page", Nothing, "The page with the list of datasets", |it| of_browser(it, list));

/// Adds the page.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<Page>>()
}

/// The list on a page.
struct List {
    search: Search,
    datasets: Vec<Map<String, Value>>,
    /// `None`: it is unknown.
    count: Option<u64>,
    /// `None`: they are unknown. `Some(None)`: the request asks for none.
    facets: Option<Option<Value>>,
    next: Option<String>,
}

/// The texts of a search, in the order of [`SEARCHED`]; empty ones find everything.
#[derive(Clone, Debug, Default, PartialEq)]
struct Search([String; SEARCHED.len()]);

async fn list(request: Request) -> Result<Shown, Refusal> {
    let search = Search(SEARCHED.map(|(name, ..)| request.parameter(name).unwrap_or_default().to_owned()));
    let (fields, state) = (search.fields(), request.state());
    let limits = json!({"limit": LIMIT, "order": "createdAt:desc"}).to_string();
    let after = request.parameter("after").filter(|text| !text.is_empty()).map(Cursor::parse).transpose()?;
    let mut query = full::translate(Some(&fields), Some(&limits))?;
    query.projection = Some(shown_fields());
    let query = query.followed(after.as_ref())?;
    let (access, clock) = (state.rules.read_filter(&request.caller), || request.now().timestamp_millis());
    let room = |bytes| request.take(bytes);
    let page = state.store.list(&access, &query, after.as_ref(), &clock, &room).await?;
    let count = state.store.count(&access, &query.filter, Some(COUNT_MAX), &clock);
    let facets = async {
        if request.parameter("values").is_none() {
            return Ok(None);
        }
        let facets = facets::translate(Some(&fields), Some(COUNTED))?;
        state.store.facets(&access, &facets, &clock, &room).await.map(Some)
    };
    let (count, facets) = join(count, facets).await;
    let (count, facets) = (computed(count)?, computed(facets)?);
    let datasets = page.documents.iter().map(|document| show(document, Version::V4)).collect();
    let list = List { search, datasets, count, facets, next: page.next.map(|next| next.text()) };
    Ok(Shown { title: "Datasets".to_owned(), content: content(&list) })
}

/// A computed value; `None` if it is being computed, or takes too long.
fn computed<T>(value: Result<T, Error>) -> Result<Option<T>, Error> {
    match value {
        Err(Error::Refused(Refusal::Computing | Refusal::BadRequest(_))) => Ok(None),
        value => value.map(Some),
    }
}

fn shown_fields() -> Document {
    doc! {"datasetName": 1, "type": 1, "owner": 1, "creationTime": 1, "size": 1, "numberOfFiles": 1}
}

impl Search {
    /// The parameter `fields` of a full query.
    fn fields(&self) -> String {
        let given = self.0.iter().zip(SEARCHED).filter(|(text, _)| !text.is_empty());
        let field = |(text, (_, name, _)): (&String, (&str, &str, &str))| {
            let value = if name == "text" { json!(text) } else { json!([text]) };
            (name.to_owned(), value)
        };
        Value::Object(given.map(field).collect()).to_string()
    }

    /// The address of the list with this search and one more parameter.
    fn address(&self, name: &str, value: &str) -> String {
        let own = self.0.iter().zip(SEARCHED).filter(|(text, _)| !text.is_empty());
        let own = own.map(|(text, (name, ..))| format!("{name}={}&", encoded(text)));
        format!("/?{}{name}={}", own.collect::<String>(), encoded(value))
    }

    /// The same search with another text in one field.
    fn with(&self, place: usize, text: &str) -> Self {
        let mut search = self.clone();
        search.0[place] = text.to_owned();
        search
    }
}

fn content(list: &List) -> Markup {
    html! {
        h1 { "Datasets" }
        (form(&list.search))
        p { (counted(list.count)) " · " a href=(list.search.address("values", "on")) { "Count values" } }
        @match &list.facets {
            Some(None) => {}
            Some(Some(facets)) => (values(&list.search, facets)),
            None => p { "The values are not counted yet. Load the page again later." },
        }
        table.rows {
            thead { tr { th { "Dataset" } th { "Type" } th { "Owner" } th { "Created" } th.number { "Files" } th.number { "Bytes" } } }
            tbody { @for dataset in &list.datasets { (line(dataset)) } }
        }
        @if list.datasets.is_empty() { p { "No dataset matches." } }
        @if let Some(after) = &list.next { p { a href=(list.search.address("after", after)) { "Next page" } } }
    }
}

fn counted(count: Option<u64>) -> String {
    match count {
        None => "The number of datasets is not known yet".to_owned(),
        Some(1) => "1 dataset".to_owned(),
        Some(count) if count >= u64::from(COUNT_MAX) => format!("{count} datasets or more"),
        Some(count) => format!("{count} datasets"),
    }
}

fn form(search: &Search) -> Markup {
    html! {
        form method="get" action="/" {
            @for (text, (name, _, label)) in search.0.iter().zip(SEARCHED) {
                label { (label) " " input name=(name) value=(text); }
            }
            button { "Search" }
        }
    }
}

/// The values of each counted field, each with a link to its datasets.
fn values(search: &Search, facets: &Value) -> Markup {
    html! {
        @for (place, (_, name, label)) in SEARCHED.iter().enumerate() {
            @if let Some(buckets) = facets[0][*name].as_array() {
                h2 { (label) }
                ul { @for bucket in buckets.iter().filter(|bucket| bucket["_id"].is_string()) {
                    li {
                        a href=(search.with(place, &text(&bucket["_id"])).address("values", "on")) { (text(&bucket["_id"])) }
                        " " (text(&bucket["count"]))
                    }
                } }
            }
        }
    }
}

fn line(dataset: &Map<String, Value>) -> Markup {
    let cell = |name: &str| dataset.get(name).map(text).unwrap_or_default();
    let pid = dataset.get("pid").and_then(Value::as_str).unwrap_or_default();
    html! {
        tr {
            td { a href=(format!("/datasets/{}", encoded(pid))) { (cell("datasetName")) } br; (pid) }
            td { (cell("type")) }
            td { (cell("owner")) }
            td { (cell("creationTime")) }
            td.number data-unit="files" { (cell("numberOfFiles")) }
            td.number data-unit="bytes" { (cell("size")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_becomes_a_query_and_an_address() {
        let search = Search(["a b".into(), String::new(), "ann&eve".into(), "k".into()]);
        let expected = json!({"text": "a b", "owner": ["ann&eve"], "keywords": ["k"]});
        assert_eq!(serde_json::from_str::<Value>(&search.fields()).unwrap(), expected);
        assert_eq!(search.address("after", "x="), "/?text=a%20b&owner=ann%26eve&keyword=k&after=x%3D");
        assert_eq!(Search::default().address("values", "on"), "/?values=on");
    }

    #[test]
    fn hostile_values_are_escaped_and_their_links_are_encoded() {
        let hostile = "<script>\"&/";
        let dataset = json!({"pid": hostile, "datasetName": hostile, "owner": hostile});
        let list = List {
            search: Search::default().with(0, hostile),
            datasets: vec![dataset.as_object().unwrap().clone()],
            count: Some(1),
            facets: Some(Some(json!([{"type": [{"_id": hostile, "count": 1}, {"_id": null, "count": 2}]}]))),
            next: Some(hostile.into()),
        };
        let html = content(&list).into_string();
        assert!(!html.contains("<script"), "{html}");
        let link = "/datasets/%3Cscript%3E%22%26%2F";
        assert!(html.contains(link) && html.contains("type=%3Cscript%3E%22%26%2F&amp;values=on"), "{html}");
    }

    #[test]
    fn a_list_without_its_counts_says_so() {
        assert_eq!(computed(Ok(5)).unwrap(), Some(5));
        for refusal in [Refusal::Computing, Refusal::too_slow(std::time::Duration::from_secs(30))] {
            assert_eq!(computed::<u64>(Err(refusal.into())).unwrap(), None);
        }
        assert!(computed::<u64>(Err(Refusal::Unavailable.into())).is_err());
        let list =
            List { search: Search::default(), datasets: Vec::new(), count: None, facets: None, next: None };
        let html = content(&list).into_string();
        assert!(html.contains("not known yet") && html.contains("not counted yet"), "{html}");
    }
}
