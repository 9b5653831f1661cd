//! Reads and changes the life cycle of a dataset.

use bson::Document;
use plimsoll_service::Routes;
use serde_json::{Value, json};

use super::action::{Of, Reply, Request, action};
use super::datasets::{changed, readable};
use super::state::State;
use crate::Refusal;
use crate::access::Change;
use crate::documents::dataset::{Version, show};
use crate::documents::json;

action!(ReadV3, GET "/api/v3/datasets/{pid}/datasetlifecycle", "read_lifecycle_v3", Nothing, "Read the life cycle", read);
action!(ReadV4, GET "/api/v4/datasets/{pid}/datasetlifecycle", "read_lifecycle", Nothing, "Read the life cycle", read);
action!(PatchV3, PATCH "/api/v3/datasets/{pid}/datasetlifecycle", "patch_lifecycle_v3", Json, "Change the life cycle", |it| patch(it, Version::V3));
action!(PatchV4, PATCH "/api/v4/datasets/{pid}/datasetlifecycle", "patch_lifecycle", Json, "Change the life cycle", |it| patch(it, Version::V4));

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<ReadV3>>().with::<Of<ReadV4>>().with::<Of<PatchV3>>().with::<Of<PatchV4>>()
}

async fn read(request: Request) -> Result<Reply, Refusal> {
    let dataset = readable(&request).await?;
    Ok(Reply::Found(lifecycle(&dataset)))
}

fn lifecycle(dataset: &Document) -> Value {
    dataset.get_document("datasetlifecycle").map(json::object).unwrap_or_default().into()
}

async fn patch(request: Request, version: Version) -> Result<Reply, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let body = json!({"datasetlifecycle": request.json().await?});
    let dataset = changed(&request, body, version, Change::Lifecycle).await?;
    Ok(Reply::Found(match version {
        Version::V3 => show(&dataset, version).into(),
        Version::V4 => lifecycle(&dataset),
    }))
}
