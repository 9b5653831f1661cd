//! Adds and lists attachments.

use plimsoll_service::Routes;
use serde_json::json;

use super::action::{Of, Reply, Request, action};
use super::datasets::{changeable, readable, relation_of};
use super::state::State;
use crate::Refusal;
use crate::access::Change;
use crate::documents::attachment;
use crate::query::include::Relation;

action!(Add, POST "/api/v4/attachments", "add_attachment", Json, "Add an attachment", |it| add_to(it, None));
action!(AddTo, POST "/api/v3/datasets/{pid}/attachments", "add_attachment_to", Json, "Add an attachment to a dataset", of_path);
action!(List, GET "/api/v3/datasets/{pid}/attachments", "list_attachments", Nothing, "The attachments of a dataset", list);
action!(Count, GET "/api/v3/datasets/{pid}/attachments/count", "count_attachments", Nothing, "Count the attachments", count);
action!(Thumbnail, GET "/api/v3/datasets/{pid}/thumbnail", "read_thumbnail", Nothing, "The image of a dataset", thumbnail);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes
        .with::<Of<Add>>()
        .with::<Of<AddTo>>()
        .with::<Of<List>>()
        .with::<Of<Count>>()
        .with::<Of<Thumbnail>>()
}

async fn of_path(request: Request) -> Result<Reply, Refusal> {
    let pid = request.part("pid").to_owned();
    add_to(request, Some(pid)).await
}

async fn add_to(request: Request, pid: Option<String>) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let body = attachment::read(&request.json().await?, pid.as_deref())?;
    let targets = attachment::targets(&body);
    let dataset = changeable(&request, targets.first().unwrap_or(&""), Change::Update).await?;
    for other in targets.iter().skip(1) {
        changeable(&request, other, Change::Update).await?;
    }
    request.take(request.call.body.len())?;
    let state = request.state();
    let stored = attachment::store(body, &dataset, &state.new_id(), request.username(), request.now());
    state.store.attach(&stored).await?;
    Ok(Reply::Created(attachment::show(&stored)))
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

/// The first image; an empty object without one.
async fn thumbnail(request: Request) -> Result<Reply, Refusal> {
    readable(&request).await?;
    let attachments =
        request.state().store.attachments(request.part("pid"), &|bytes| request.take(bytes)).await?;
    let mut images = attachments.iter().filter_map(|attachment| attachment.get_str("thumbnail").ok());
    Ok(Reply::Found(images.next().map_or_else(|| json!({}), |image| json!({"thumbnail": image}))))
}
