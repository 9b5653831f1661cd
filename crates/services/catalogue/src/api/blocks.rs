//! Adds, reads, changes and removes blocks of files.

use bson::Document;
use plimsoll_service::Routes;
use serde_json::json;

use super::action::{Of, Reply, Request, action};
use super::datasets::{ATTEMPTS_MAX, changeable, may, readable, readable_of, relation_of};
use super::state::State;
use crate::Refusal;
use crate::access::Change;
use crate::documents::block::{self, Creation};
use crate::query::include::Relation;
use crate::storage;

action!(AddV3, POST "/api/v3/origdatablocks", "add_block_v3", Json, "Add a block of files", |it| add_block(it, None));
action!(AddV4, POST "/api/v4/origdatablocks", "add_block", Json, "Add a block of files", |it| add_block(it, None));
action!(CheckV3, POST "/api/v3/origdatablocks/isvalid", "check_block_v3", Json, "Check a block of files", check);
action!(CheckV4, POST "/api/v4/origdatablocks/isvalid", "check_block", Json, "Check a block of files", check);
action!(AddTo, POST "/api/v3/datasets/{pid}/origdatablocks", "add_block_to", Json, "Add a block to a dataset", add_to);
action!(List, GET "/api/v3/datasets/{pid}/origdatablocks", "list_blocks", Nothing, "The blocks of a dataset", list);
action!(Count, GET "/api/v3/datasets/{pid}/origdatablocks/count", "count_blocks", Nothing, "Count the blocks of a dataset", count);
action!(CountArchived, GET "/api/v3/datasets/{pid}/datablocks/count", "count_archived_blocks", Nothing, "Count the archived blocks of a dataset", count_archived);
action!(PatchOf, PATCH "/api/v3/datasets/{pid}/origdatablocks/{oid}", "patch_block_of", Json, "Change a block", patch);
action!(RemoveOf, DELETE "/api/v3/datasets/{pid}/origdatablocks/{oid}", "remove_block_of", Nothing, "Remove a block", remove);
action!(ReadV3, GET "/api/v3/origdatablocks/{oid}", "read_block_v3", Nothing, "Read a block with its files", read);
action!(ReadV4, GET "/api/v4/origdatablocks/{oid}", "read_block", Nothing, "Read a block with its files", read_v4);
action!(PatchV3, PATCH "/api/v3/origdatablocks/{oid}", "patch_block_v3", Json, "Change a block", patch);
action!(PatchV4, PATCH "/api/v4/origdatablocks/{oid}", "patch_block", Json, "Change a block", patch);
action!(RemoveV3, DELETE "/api/v3/origdatablocks/{oid}", "remove_block_v3", Nothing, "Remove a block", remove);
action!(RemoveV4, DELETE "/api/v4/origdatablocks/{oid}", "remove_block", Nothing, "Remove a block", remove);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    let routes = routes.with::<Of<AddV3>>().with::<Of<AddV4>>().with::<Of<CheckV3>>().with::<Of<CheckV4>>();
    let routes =
        routes.with::<Of<AddTo>>().with::<Of<List>>().with::<Of<Count>>().with::<Of<CountArchived>>();
    let routes =
        routes.with::<Of<PatchOf>>().with::<Of<RemoveOf>>().with::<Of<ReadV3>>().with::<Of<ReadV4>>();
    routes.with::<Of<PatchV3>>().with::<Of<PatchV4>>().with::<Of<RemoveV3>>().with::<Of<RemoveV4>>()
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
    let mut stored = state.store.add_block(&head, creation, &files, &may(&request, Change::Update)).await?;
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

/// The head of the block of the path, if it belongs to the dataset of the path.
async fn head(request: &Request) -> Result<Document, Refusal> {
    let pid = Some(request.part("pid")).filter(|pid| !pid.is_empty());
    let head =
        request.state().store.block(pid, request.part("oid"), &|bytes| request.take_files(bytes)).await?;
    head.ok_or_else(|| Refusal::NotFound("origDatablock not found".into()))
}

/// The head of the block of the path, if the caller may change it.
async fn changeable_head(request: &Request, change: Change) -> Result<Document, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    if !request.part("pid").is_empty() {
        changeable(request, request.part("pid"), change).await?;
        return head(request).await;
    }
    let head = head(request).await?;
    changeable(request, head.get_str("datasetId").unwrap_or_default(), change).await?;
    Ok(head)
}

async fn read_v4(request: Request) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    read(request).await
}

async fn read(request: Request) -> Result<Reply, Refusal> {
    let head = head(&request).await?;
    readable_of(&request, head.get_str("datasetId").unwrap_or_default()).await?;
    let whole = request.state().store.whole_block(head, &|bytes| request.take_files(bytes)).await?;
    Ok(Reply::Found(block::show(&whole)))
}

async fn patch(request: Request) -> Result<Reply, Refusal> {
    let dataset = changeable_head(&request, Change::Update).await?.remove("datasetId");
    let pid = dataset.as_ref().and_then(|pid| pid.as_str()).unwrap_or_default().to_owned();
    let patch = request.parsed(move |body| block::patch(&body, &pid)).await?;
    // After the block is changed, nothing may fail.
    request.take(request.call.body.len())?;
    for _ in 0..ATTEMPTS_MAX {
        let head = changeable_head(&request, Change::Update).await?;
        let store = &request.state().store;
        match store.update_block(&head, patch.clone(), request.username(), request.now()).await {
            Err(storage::Error::Changed) => (),
            changed => return Ok(Reply::Found(block::show_head(&changed?))),
        }
    }
    Err(storage::Error::Changed.into())
}

async fn remove(request: Request) -> Result<Reply, Refusal> {
    for _ in 0..ATTEMPTS_MAX {
        let head = changeable_head(&request, Change::DeleteBlock).await?;
        match request.state().store.delete_block(&head, request.now()).await {
            Err(storage::Error::Changed) => (),
            done => return done.map(|()| Reply::Found(block::show_head(&head))).map_err(Refusal::from),
        }
    }
    Err(storage::Error::Changed.into())
}
