//! Adds, reads, lists, changes and removes attachments.

use std::sync::Arc;

use bson::Document;
use plimsoll_service::Routes;
use serde_json::json;

use super::action::{Of, Reply, Request, action};
use super::datasets::{ATTEMPTS_MAX, changeable, readable, relation_of};
use super::state::State;
use crate::Refusal;
use crate::access::{Change, Owned};
use crate::documents::attachment::{self, Extent};
use crate::query::include::Relation;
use crate::storage;

action!(Add, POST "/api/v4/attachments", "add_attachment", Json, "Add an attachment", |it| add_to(it, None));
action!(AddTo, POST "/api/v3/datasets/{pid}/attachments", "add_attachment_to", Json, "Add an attachment to a dataset", of_path);
action!(List, GET "/api/v3/datasets/{pid}/attachments", "list_attachments", Nothing, "The attachments of a dataset", list);
action!(Count, GET "/api/v3/datasets/{pid}/attachments/count", "count_attachments", Nothing, "Count the attachments", count);
action!(Thumbnail, GET "/api/v3/datasets/{pid}/thumbnail", "read_thumbnail", Nothing, "The image of a dataset", thumbnail);
action!(PutOf, PUT "/api/v3/datasets/{pid}/attachments/{aid}", "change_attachment_of", Json, "Change the fields of the body", |it| change(it, Extent::Given));
action!(RemoveOf, DELETE "/api/v3/datasets/{pid}/attachments/{aid}", "remove_attachment_of", Nothing, "Remove an attachment", remove);
action!(Read, GET "/api/v4/attachments/{aid}", "read_attachment", Nothing, "Read an attachment", read);
action!(Patch, PATCH "/api/v4/attachments/{aid}", "patch_attachment", Json, "Change the fields of the body", |it| change(it, Extent::Given));
action!(Replace, PUT "/api/v4/attachments/{aid}", "replace_attachment", Json, "Replace an attachment", |it| change(it, Extent::All));
action!(Remove, DELETE "/api/v4/attachments/{aid}", "remove_attachment", Nothing, "Remove an attachment", remove);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    let routes = routes.with::<Of<Add>>().with::<Of<AddTo>>().with::<Of<List>>().with::<Of<Count>>();
    let routes = routes.with::<Of<Thumbnail>>().with::<Of<PutOf>>().with::<Of<RemoveOf>>();
    routes.with::<Of<Read>>().with::<Of<Patch>>().with::<Of<Replace>>().with::<Of<Remove>>()
}

async fn of_path(request: Request) -> Result<Reply, Refusal> {
    let pid = request.part("pid").to_owned();
    add_to(request, Some(pid)).await
}

async fn add_to(request: Request, pid: Option<String>) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let body = request.parsed(move |body| attachment::read(&body, pid.as_deref())).await?;
    // After the attachment is stored, nothing may fail.
    request.take(request.call.body.len())?;
    let (state, id) = (request.state(), request.state().new_id());
    for _ in 0..ATTEMPTS_MAX {
        let datasets = targets(&request, &body).await?;
        let dataset = datasets.first().cloned().unwrap_or_default();
        let stored = attachment::store(body.clone(), &dataset, &id, request.username(), request.now());
        match state.store.attach(&stored, &datasets).await {
            Err(storage::Error::Changed) => (),
            done => return done.map(|()| Reply::Created(attachment::show(&stored))).map_err(Refusal::from),
        }
    }
    Err(storage::Error::Changed.into())
}

/// The datasets of an attachment, if the caller may change each.
async fn targets(request: &Request, attachment: &Document) -> Result<Vec<Document>, Refusal> {
    let mut datasets = Vec::new();
    for pid in attachment::targets(attachment) {
        datasets.push(changeable(request, pid, Change::Update).await?);
    }
    Ok(datasets)
}

async fn list(request: Request) -> Result<Reply, Refusal> {
    let dataset = readable(&request).await?;
    Ok(Reply::Found(relation_of(&request, &dataset, Relation::Attachments).await?))
}

async fn count(request: Request) -> Result<Reply, Refusal> {
    readable(&request).await?;
    let count = request.state().store.count_attachments(request.part("pid")).await?;
    Ok(Reply::Found(json!({"count": count})))
}

/// The attachment of the path, if it belongs to the dataset of the path.
async fn found(request: &Request) -> Result<Document, Refusal> {
    let pid = Some(request.part("pid")).filter(|pid| !pid.is_empty());
    let store = &request.state().store;
    let stored = store.attachment(pid, request.part("aid"), &|bytes| request.take(bytes)).await?;
    stored.ok_or_else(|| Refusal::NotFound("attachment not found".into()))
}

async fn read(request: Request) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let stored = found(&request).await?;
    request.state().rules.read(&request.caller, &Owned::of(&stored))?;
    Ok(Reply::Found(attachment::show(&stored)))
}

/// The attachment of the path, if the caller may change each of its datasets.
async fn changeable_attachment(request: &Request) -> Result<Document, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let stored = found(request).await?;
    let mut has_dataset = false;
    for pid in attachment::targets(&stored) {
        match changeable(request, pid, Change::Update).await {
            Ok(_) => has_dataset = true,
            Err(Refusal::NotFound(_)) => (),
            Err(refusal) => return Err(refusal),
        }
    }
    if !has_dataset {
        // The attachment outlived its datasets, or SciCat attached it to something else.
        request.state().rules.change(&request.caller, &Owned::of(&stored), Change::Update)?;
    }
    Ok(stored)
}

async fn change(request: Request, extent: Extent) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let body = Arc::new(request.json().await?);
    // After the attachment is changed, nothing may fail.
    request.take(request.call.body.len())?;
    for _ in 0..ATTEMPTS_MAX {
        let stored = changeable_attachment(&request).await?;
        let (body, by, now) = (body.clone(), request.username().to_owned(), request.now());
        let make =
            move || attachment::changed(&stored, &body, extent, &by, now).map(|changed| (stored, changed));
        let (stored, mut changed) = request.converted(make).await?;
        let datasets = targets(&request, &changed).await?;
        if let Some(dataset) = datasets.first().filter(|_| attachment::inherits(&stored, &changed, extent)) {
            attachment::inherit(&mut changed, dataset);
        }
        match request.state().store.update_attachment(&stored, &changed, &datasets).await {
            Err(storage::Error::Changed) => (),
            done => return done.map(|()| Reply::Found(attachment::show(&changed))).map_err(Refusal::from),
        }
    }
    Err(storage::Error::Changed.into())
}

async fn remove(request: Request) -> Result<Reply, Refusal> {
    let stored = changeable_attachment(&request).await?;
    request.state().store.remove_attachment(&stored).await?;
    Ok(Reply::Found(attachment::show(&stored)))
}

/// The first image; an empty object without one.
async fn thumbnail(request: Request) -> Result<Reply, Refusal> {
    readable(&request).await?;
    let image = request.state().store.thumbnail(request.part("pid"), &|bytes| request.take(bytes)).await?;
    Ok(Reply::Found(image.map_or_else(|| json!({}), |image| json!({"thumbnail": image}))))
}
