//! Creates, reads, changes and removes datasets.

use std::sync::Arc;

use axum::http::header::{CONTENT_TYPE, IF_UNMODIFIED_SINCE};
use bson::{DateTime, Document, doc};
use plimsoll_service::Routes;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::action::{Of, Reply, Request, action};
use super::state::State;
use crate::access::{Change, Owned};
use crate::documents::dataset::{self, Creation, Form, Patch, Version, show};
use crate::documents::{attachment, block, history};
use crate::query::include::{self, Relation};
use crate::query::page::Page;
use crate::query::{Dialect, Find, filter};
use crate::storage;
use crate::{Refusal, moment};

/// The maximum number of attempts at a change while others change the same dataset.
pub(super) const ATTEMPTS_MAX: u32 = 5;

action!(CreateV3, POST "/api/v3/datasets", "create_dataset_v3", Json, "Create a dataset", |it| create(it, Version::V3));
action!(CreateV4, POST "/api/v4/datasets", "create_dataset", Json, "Create a dataset", |it| create(it, Version::V4));
action!(CheckV3, POST "/api/v3/datasets/isvalid", "check_dataset_v3", Json, "Check a dataset", |it| check(it, Version::V3));
action!(CheckV4, POST "/api/v4/datasets/isvalid", "check_dataset", Json, "Check a dataset", |it| check(it, Version::V4));
action!(ReadV3, GET "/api/v3/datasets/{pid}", "read_dataset_v3", Nothing, "Read a dataset with its history", read_v3);
action!(ReadV4, GET "/api/v4/datasets/{pid}", "read_dataset", Nothing, "Read a dataset, with relations if asked for", read_v4);
action!(ReadPublic, GET "/api/v4/datasets/public/{pid}", "read_public_dataset", Nothing, "Read a published dataset", read_public);
action!(PatchV3, PATCH "/api/v3/datasets/{pid}", "patch_dataset_v3", Json, "Change a dataset", |it| patch(it, Version::V3));
action!(PatchV4, PATCH "/api/v4/datasets/{pid}", "patch_dataset", Json, "Change a dataset", |it| patch(it, Version::V4));
action!(DeleteV3, DELETE "/api/v3/datasets/{pid}", "delete_dataset_v3", Nothing, "Remove a dataset", |it| delete(it, Version::V3));
action!(DeleteV4, DELETE "/api/v4/datasets/{pid}", "delete_dataset", Nothing, "Remove a dataset", |it| delete(it, Version::V4));
action!(ReplaceV3, PUT "/api/v3/datasets/{pid}", "replace_dataset_v3", Json, "Replace a dataset", |it| replace(it, Version::V3));
action!(ReplaceV4, PUT "/api/v4/datasets/{pid}", "replace_dataset", Json, "Replace a dataset", |it| replace(it, Version::V4));
action!(Verify, POST "/api/v4/datasets/{pid}/size/verify", "verify_size", Json, "Correct the size of a dataset", verify);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    let routes =
        routes.with::<Of<CreateV3>>().with::<Of<CreateV4>>().with::<Of<CheckV3>>().with::<Of<CheckV4>>();
    let routes = routes.with::<Of<ReadV3>>().with::<Of<ReadV4>>().with::<Of<ReadPublic>>();
    let routes =
        routes.with::<Of<PatchV3>>().with::<Of<PatchV4>>().with::<Of<DeleteV3>>().with::<Of<DeleteV4>>();
    routes.with::<Of<ReplaceV3>>().with::<Of<ReplaceV4>>().with::<Of<Verify>>()
}

async fn create(request: Request, version: Version) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    request.take(request.call.body.len())?;
    let request = Arc::new(request);
    let maker = request.clone();
    let stored = request.parsed(move |body| made(&maker, &body, version)).await?;
    request.state().store.create(&stored).await?;
    Ok(Reply::Created(show(&stored, version).into()))
}

/// The stored form of a body, if the caller may create it.
///
/// # Errors
/// The caller may not, or the body is wrong.
pub(super) fn made(request: &Request, body: &Value, version: Version) -> Result<Document, Refusal> {
    let state = request.state();
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    state.rules.create(&request.caller, text("ownerGroup").unwrap_or_default(), text("pid"))?;
    let creation = Creation {
        pid: state.new_pid(),
        by: request.username(),
        at: request.now(),
        types: &state.datasets.types,
        tape_redundancy: None,
    };
    dataset::create(body, version, &creation)
}

async fn check(request: Request, version: Version) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let types = request.state().datasets.types.clone();
    let faults = request.parsed(move |body| Ok(dataset::faults(&body, version, &types))).await?;
    let body =
        if faults.is_empty() { json!({"valid": true}) } else { json!({"valid": false, "errors": faults}) };
    Ok(Reply::Found(body))
}

/// The dataset of the path, if the caller may read it.
///
/// # Errors
/// It does not exist, or belongs to others.
pub(super) async fn readable(request: &Request) -> Result<Document, Refusal> {
    readable_of(request, request.part("pid")).await
}

/// A dataset, if the caller may read it.
///
/// # Errors
/// It does not exist, or belongs to others.
pub(super) async fn readable_of(request: &Request, pid: &str) -> Result<Document, Refusal> {
    let state = request.state();
    let dataset = state.store.dataset_in(pid, &|bytes| request.take(bytes)).await?;
    let dataset = dataset.ok_or_else(|| Refusal::no_dataset(pid))?;
    state.rules.read(&request.caller, &Owned::of(&dataset))?;
    Ok(dataset)
}

/// The dataset of a body or a path, if the caller may change it.
///
/// # Errors
/// It does not exist, or belongs to others.
pub(super) async fn changeable(request: &Request, pid: &str, change: Change) -> Result<Document, Refusal> {
    let state = request.state();
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let dataset = state.store.dataset_in(pid, &|bytes| request.take(bytes)).await?;
    let dataset = dataset.ok_or_else(|| Refusal::no_dataset(pid))?;
    state.rules.change(&request.caller, &Owned::of(&dataset), change)?;
    Ok(dataset)
}

/// Decides whether the caller may change a dataset that has changed since the request began.
pub(super) fn may(
    request: &Request,
    change: Change,
) -> impl Fn(&Document) -> Result<(), Refusal> + Send + Sync + '_ {
    move |dataset| request.state().rules.change(&request.caller, &Owned::of(dataset), change)
}

async fn read_v3(request: Request) -> Result<Reply, Refusal> {
    let query = filter::translate(request.filter()?, Dialect::V3)?;
    let mut dataset = readable(&request).await?;
    let shows_history = query.projection.is_none();
    if !shows_history {
        dataset = selected(&request, &query).await?;
    }
    let mut body = with_relations(&request, &dataset, &query.include, Version::V3).await?;
    if shows_history {
        let entries = request.state().store.history(&dataset, &|bytes| request.take(bytes)).await?;
        body.insert("history".into(), entries.iter().map(history::show).collect());
    }
    Ok(Reply::Found(body.into()))
}

/// The fields of the dataset of the path that a query selects. Its conditions have no effect, as in SciCat.
async fn selected(request: &Request, query: &Find) -> Result<Document, Refusal> {
    let (state, pid) = (request.state(), request.part("pid"));
    let find = Find {
        filter: doc! {"_id": pid},
        page: Page { limit: 1, ..Page::default() },
        projection: query.projection.clone(),
        include: Vec::new(),
    };
    let access = state.rules.read_filter(&request.caller);
    let (clock, room) = (|| request.now().timestamp_millis(), |bytes| request.take(bytes));
    let mut found = state.store.list(&access, &find, None, &clock, &room).await?;
    found.documents.pop().ok_or_else(|| Refusal::no_dataset(pid))
}

async fn read_v4(request: Request) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let dataset = readable(&request).await?;
    related(&request, &dataset).await
}

async fn read_public(request: Request) -> Result<Reply, Refusal> {
    let pid = request.part("pid");
    let dataset = request.state().store.dataset_in(pid, &|bytes| request.take(bytes)).await?;
    let dataset = dataset.filter(|dataset| Owned::of(dataset).is_published);
    related(&request, &dataset.ok_or_else(|| Refusal::no_dataset(pid))?).await
}

async fn related(request: &Request, dataset: &Document) -> Result<Reply, Refusal> {
    let relations = include::named(request.parameters("include"))?;
    Ok(Reply::Found(with_relations(request, dataset, &relations, Version::V4).await?.into()))
}

/// A dataset with some of its relations.
///
/// # Errors
/// Those of [`relation_of`].
pub(super) async fn with_relations(
    request: &Request,
    dataset: &Document,
    relations: &[Relation],
    version: Version,
) -> Result<Map<String, Value>, Refusal> {
    let mut body = show(dataset, version);
    for relation in relations {
        body.insert(relation.name().into(), relation_of(request, dataset, *relation).await?);
    }
    Ok(body)
}

/// The documents of a relation. A relation that the catalogue does not keep has none.
pub(super) async fn relation_of(
    request: &Request,
    dataset: &Document,
    relation: Relation,
) -> Result<Value, Refusal> {
    let (store, room) = (&request.state().store, |bytes| request.take(bytes));
    let pid = dataset.get_str("_id").unwrap_or_default();
    Ok(match relation {
        Relation::OrigDatablocks => {
            let mut blocks = Vec::new();
            let room = |bytes| request.take_files(bytes);
            for head in store.blocks(pid, &room).await? {
                blocks.push(block::show(&store.whole_block(head, &room).await?));
            }
            blocks.into()
        }
        Relation::Attachments => store.attachments(pid, &room).await?.iter().map(attachment::show).collect(),
        Relation::Datablocks | Relation::Instruments | Relation::Proposals | Relation::Samples => json!([]),
    })
}

async fn patch(request: Request, version: Version) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let body = request.json().await?;
    let dataset = changed(&request, body, version, Change::Update).await?;
    Ok(Reply::Found(show(&dataset, version).into()))
}

async fn replace(request: Request, version: Version) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let body = request.json().await?;
    let types = request.state().datasets.types.clone();
    let (pid, by, at) = (request.part("pid").to_owned(), request.username().to_owned(), request.now());
    let make = move |stored: &Document| {
        let creation = Creation { pid: pid.clone(), by: &by, at, types: &types, tape_redundancy: None };
        dataset::replace(stored, &body, version, &creation)
    };
    let dataset = altered(&request, Change::Update, make).await?;
    Ok(Reply::Found(show(&dataset, version).into()))
}

/// Changes the dataset of the path by a part of a body. Returns the dataset after it.
///
/// # Errors
/// Those of [`altered`].
pub(super) async fn changed(
    request: &Request,
    body: Value,
    version: Version,
    change: Change,
) -> Result<Document, Refusal> {
    let form = form(request);
    altered(request, change, move |stored| dataset::patch(stored, &body, version, form)).await
}

/// Changes the dataset of the path by the patch that `make` returns. Returns the dataset after it.
///
/// # Errors
/// The dataset does not exist, belongs to others or has changed meanwhile, or the body is wrong.
async fn altered(
    request: &Request,
    change: Change,
    make: impl Fn(&Document) -> Result<Patch, Refusal> + Send + Sync + 'static,
) -> Result<Document, Refusal> {
    let (pid, make) = (request.part("pid"), Arc::new(make));
    request.take(request.call.body.len())?;
    for _ in 0..ATTEMPTS_MAX {
        let stored = changeable(request, pid, change).await?;
        unmodified(request, &stored)?;
        let make = make.clone();
        let (stored, patch) = request.converted(move || make(&stored).map(|patch| (stored, patch))).await?;
        if patch.is_empty() {
            return Ok(stored);
        }
        if let Some(group) = patch.set.get("ownerGroup") {
            request.state().rules.give(&request.caller, group.as_str().unwrap_or_default())?;
        }
        match request.state().store.update(&stored, &patch, request.username(), request.now()).await {
            Err(storage::Error::Changed) => (),
            changed => return Ok(changed?),
        }
    }
    Err(storage::Error::Changed.into())
}

fn form(request: &Request) -> Form {
    let kind = request.call.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/merge-patch+json") { Form::Merge } else { Form::Plain }
}

/// Refuses a change of a dataset that has changed since the moment in `If-Unmodified-Since`.
fn unmodified(request: &Request, stored: &Document) -> Result<(), Refusal> {
    let Some(header) = request.call.headers.get(IF_UNMODIFIED_SINCE) else { return Ok(()) };
    let since = header.to_str().ok().and_then(since);
    let since = since.ok_or_else(|| Refusal::bad("If-Unmodified-Since needs a date"))?;
    let changed = stored.get_datetime("updatedAt").map_or(i64::MIN, |at| at.timestamp_millis());
    if changed <= since {
        return Ok(());
    }
    let at = moment::text(DateTime::from_millis(changed));
    Err(Refusal::Precondition(format!("the dataset was changed at {at}: read it again")))
}

/// The last millisecond of a moment: a date of HTTP has whole seconds.
fn since(text: &str) -> Option<i64> {
    let exact = moment::parse(text).map(DateTime::timestamp_millis);
    let of_http = || OffsetDateTime::parse(text, &Rfc2822).ok().map(|at| at.unix_timestamp() * 1_000 + 999);
    exact.or_else(of_http)
}

async fn delete(request: Request, version: Version) -> Result<Reply, Refusal> {
    let stored = changeable(&request, request.part("pid"), Change::Delete).await?;
    request.state().store.delete(&stored, request.username(), request.now()).await?;
    Ok(Reply::Found(show(&stored, version).into()))
}

async fn verify(request: Request) -> Result<Reply, Refusal> {
    let pid = request.part("pid");
    changeable(&request, pid, Change::Update).await?;
    let sizes = request.state().store.verify(pid).await?;
    Ok(Reply::Found(json!({
        "right": sizes.is_right(),
        "stated": {"size": sizes.stated.size, "numberOfFiles": sizes.stated.files},
        "counted": {"size": sizes.counted.size, "numberOfFiles": sizes.counted.files},
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_of_http_covers_its_second_and_an_iso_date_is_exact() {
        assert_eq!(since("Thu, 01 Jan 1970 00:00:05 GMT"), Some(5_999));
        assert_eq!(since("1970-01-01T00:00:05.123Z"), Some(5_123));
        assert_eq!(since("yesterday"), None);
    }
}
