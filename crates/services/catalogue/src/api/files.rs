//! Pages the files of a dataset, as SciCat's clients ask for them: a row for each file.

use plimsoll_service::Routes;
use serde_json::{Value, json};

use super::action::{Of, Reply, Request, action};
use super::datasets::readable_of;
use super::state::State;
use crate::Refusal;
use crate::documents::{block, json as shown};
use crate::query::page::Page;
use crate::query::{Dialect, files};
use crate::storage::Files;

action!(ListV3, GET "/api/v3/origdatablocks/fullquery/files", "find_files_v3", Nothing, "The files of a dataset, by pages", |it| list(it, Dialect::V3));
action!(ListV4, GET "/api/v4/origdatablocks/files", "find_files", Nothing, "The files of a dataset, by pages", |it| list(it, Dialect::V4));
action!(CountV3, GET "/api/v3/origdatablocks/fullfacet/files", "count_files_v3", Nothing, "Count the files of a dataset", count_v3);
action!(CountV4, GET "/api/v4/origdatablocks/files/count", "count_files", Nothing, "Count the files of a dataset", count_v4);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<ListV3>>().with::<Of<ListV4>>().with::<Of<CountV3>>().with::<Of<CountV4>>()
}

/// The dataset and the page of a request.
fn asked(request: &Request, dialect: Dialect) -> Result<(String, Page), Refusal> {
    match dialect {
        Dialect::V3 => files::fields(request.parameter("fields"), request.parameter("limits")),
        Dialect::V4 => files::filter(request.filter()?),
    }
}

async fn found(request: &Request, dialect: Dialect, limit: Option<u64>) -> Result<Files, Refusal> {
    if dialect == Dialect::V4 {
        request.caller.user().ok_or(Refusal::Forbidden)?;
    }
    let (pid, page) = asked(request, dialect)?;
    readable_of(request, &pid).await?;
    let limit = limit.unwrap_or(page.limit);
    let room = |bytes| request.take(bytes);
    Ok(request.state().store.files(&pid, page.skip, limit, &room).await?)
}

async fn list(request: Request, dialect: Dialect) -> Result<Reply, Refusal> {
    let page = found(&request, dialect, None).await?;
    let mut rows = Vec::with_capacity(page.files.len());
    for (head, file) in &page.files {
        // Each row repeats the head of its block.
        request.take(head.to_vec().map_or(0, |bytes| bytes.len()))?;
        let mut row = block::show(head);
        row["dataFileList"] = shown::shown(file);
        row["datasetExist"] = true.into();
        rows.push(row);
    }
    Ok(Reply::Found(Value::from(rows)))
}

async fn count_v3(request: Request) -> Result<Reply, Refusal> {
    let total = found(&request, Dialect::V3, Some(0)).await?.total;
    Ok(Reply::Found(json!([{"all": [{"totalSets": total}]}])))
}

async fn count_v4(request: Request) -> Result<Reply, Refusal> {
    Ok(Reply::Found(json!({"count": found(&request, Dialect::V4, Some(0)).await?.total})))
}
