//! Lists the changes of datasets.

use bson::Document;
use plimsoll_service::Routes;
use serde_json::{Value, json};

use super::action::{Of, Reply, Request, action};
use super::datasets::readable_of;
use super::state::State;
use crate::Refusal;
use crate::documents::history as entry;
use crate::query::{SKIP_MAX, history};

/// The default number of entries in an answer.
const LIMIT: u64 = 100;
/// The maximum number of entries in an answer.
const LIMIT_MAX: u64 = 1_000;

action!(List, GET "/api/v3/history", "list_history", Nothing, "The changes of datasets", list);
action!(Count, GET "/api/v3/history/count", "count_history", Nothing, "Count the changes of datasets", count);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<List>>().with::<Of<Count>>()
}

async fn list(request: Request) -> Result<Reply, Refusal> {
    let filter = visible(&request).await?;
    let (skip, limit) =
        (number(&request, "skip", 0, SKIP_MAX)?, number(&request, "limit", LIMIT, LIMIT_MAX)?);
    let (store, room) = (&request.state().store, |bytes| request.take(bytes));
    let entries = store.changes(&filter, skip, limit, &room).await?;
    let total = store.count_changes(&filter).await?;
    let items: Vec<Value> = entries.iter().map(entry::record).collect();
    Ok(Reply::Found(json!({
        "count": items.len(), "items": items, "totalCount": total, "skip": skip, "limit": limit,
    })))
}

async fn count(request: Request) -> Result<Reply, Refusal> {
    let filter = visible(&request).await?;
    Ok(Reply::Found(json!({"count": request.state().store.count_changes(&filter).await?})))
}

/// The conditions of the request that its caller may ask for: an admin any, another user the changes of a dataset that it reads.
async fn visible(request: &Request) -> Result<Document, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let filter = history::translate(request.filter()?)?;
    let state = request.state();
    if state.rules.read_groups(&request.caller).is_none() {
        return Ok(filter);
    }
    let pid = filter.get_str("documentId").map_err(|_| Refusal::Forbidden)?;
    let dataset = readable_of(request, pid).await?;
    Ok(state.store.own_changes(&dataset, filter).await?)
}

fn number(request: &Request, name: &str, otherwise: u64, most: u64) -> Result<u64, Refusal> {
    let Some(text) = request.parameter(name).filter(|text| !text.is_empty()) else { return Ok(otherwise) };
    let number = text.parse().ok().filter(|number| *number <= most && (*number > 0 || name == "skip"));
    number.ok_or_else(|| Refusal::bad(format!("{name} needs a whole number up to {most}")))
}
