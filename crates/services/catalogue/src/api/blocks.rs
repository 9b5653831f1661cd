//! Adds, lists and removes blocks of files.

use plimsoll_service::Routes;
use serde_json::json;

use super::action::{Of, Reply, Request, action};
use super::datasets::{changeable, readable, relation_of};
use super::state::State;
use crate::Refusal;
use crate::access::Change;
use crate::documents::block::{self, Creation};
use crate::query::include::Relation;

action!(AddV3, POST "/api/v3/origdatablocks", "add_block_v3", Json, "Add a block of files", |it| add_block(it, None));
action!(AddV4, POST "/api/v4/origdatablocks", "add_block", Json, "Add a block of files", |it| add_block(it, None));
action!(CheckV3, POST "/api/v3/origdatablocks/isvalid", "check_block_v3", Json, "Check a block of files", check);
action!(CheckV4, POST "/api/v4/origdatablocks/isvalid", "check_block", Json, "Check a block of files", check);
action!(AddTo, POST "/api/v3/datasets/{pid}/origdatablocks", "add_block_to", Json, "Add a block to a dataset", add_to);
action!(List, GET "/api/v3/datasets/{pid}/origdatablocks", "list_blocks", Nothing, "The blocks of a dataset", list);
action!(Count, GET "/api/v3/datasets/{pid}/origdatablocks/count", "count_blocks", Nothing, "Count the blocks of a dataset", count);
action!(CountArchived, GET "/api/v3/datasets/{pid}/datablocks/count", "count_archived_blocks", Nothing, "Count the archived blocks of a dataset", count_archived);
action!(Remove, DELETE "/api/v3/datasets/{pid}/origdatablocks/{oid}", "remove_block", Nothing, "Remove a block", remove);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    let routes = routes.with::<Of<AddV3>>().with::<Of<AddV4>>().with::<Of<CheckV3>>().with::<Of<CheckV4>>();
    routes
        .with::<Of<AddTo>>()
        .with::<Of<List>>()
        .with::<Of<Count>>()
        .with::<Of<CountArchived>>()
        .with::<Of<Remove>>()
}

async fn add_to(request: Request) -> Result<Reply, Refusal> {
    let pid = request.part("pid").to_owned();
    add_block(request, Some(pid)).await
}

async fn add_block(request: Request, pid: Option<String>) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let (head, files) = request.parsed(move |body| block::read(&body, pid.as_deref())).await?;
    let dataset = changeable(&request, &head.dataset, Change::Update).await?;
    let (id, state) = (request.state().new_id(), request.state());
    let creation = Creation { id: &id, dataset: &dataset, by: request.username(), at: request.now() };
    // The answer is the block itself. After the block is stored, nothing may fail: a client that sends it again would double it.
    request.take(request.call.body.len())?;
    let mut stored = state.store.add_block(&head, creation, &files).await?;
    stored.insert("dataFileList", files);
    Ok(Reply::Created(block::show(&stored)))
}

async fn check(request: Request) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    Ok(Reply::Found(match request.parsed(|body| block::read(&body, None).map(drop)).await {
        Ok(()) => json!({"valid": true}),
        Err(Refusal::Properties(faults)) => json!({"valid": false, "errors": faults}),
        Err(other) => return Err(other),
    }))
}

async fn list(request: Request) -> Result<Reply, Refusal> {
    let dataset = readable(&request).await?;
    Ok(Reply::Found(relation_of(&request, &dataset, Relation::OrigDatablocks).await?))
}

async fn count(request: Request) -> Result<Reply, Refusal> {
    readable(&request).await?;
    let count = request.state().store.count_blocks(request.part("pid")).await?;
    Ok(Reply::Found(json!({"count": count})))
}

/// The catalogue keeps no archived blocks.
async fn count_archived(request: Request) -> Result<Reply, Refusal> {
    readable(&request).await?;
    Ok(Reply::Found(json!({"count": 0})))
}

async fn remove(request: Request) -> Result<Reply, Refusal> {
    let (state, pid, id) = (request.state(), request.part("pid"), request.part("oid"));
    changeable(&request, pid, Change::DeleteBlock).await?;
    let head = state.store.block(pid, id, &|bytes| request.take(bytes)).await?;
    let head = head.ok_or_else(|| Refusal::NotFound("origDatablock not found".into()))?;
    state.store.delete_block(&head).await?;
    Ok(Reply::Found(block::show(&head)))
}
