//! Lists and counts datasets.

use bson::Document;
use plimsoll_service::Routes;
use serde_json::{Value, json};

use super::action::{Of, Reply, Request, action};
use super::datasets::relation_of;
use super::state::State;
use crate::Refusal;
use crate::access::Caller;
use crate::documents::dataset::{Version, show};
use crate::query::page::Cursor;
use crate::query::{Dialect, Find, facets, filter, full};

action!(FullQuery, GET "/api/v3/datasets/fullquery", "full_query", Nothing, "Find datasets by fields", full_query);
action!(FullFacet, GET "/api/v3/datasets/fullfacet", "full_facet", Nothing, "Count the values of fields", full_facet);
action!(FindV3, GET "/api/v3/datasets", "find_datasets_v3", Nothing, "Find datasets", |it| find(it, Version::V3));
action!(FindV4, GET "/api/v4/datasets", "find_datasets", Nothing, "Find datasets", |it| find(it, Version::V4));
action!(FindPublic, GET "/api/v4/datasets/public", "find_public_datasets", Nothing, "Find published datasets", find_public);
action!(FindOneV3, GET "/api/v3/datasets/findone", "find_dataset_v3", Nothing, "Find one dataset", |it| find_one(it, Version::V3));
action!(FindOneV4, GET "/api/v4/datasets/findone", "find_dataset", Nothing, "Find one dataset", |it| find_one(it, Version::V4));
action!(CountV3, GET "/api/v3/datasets/count", "count_datasets_v3", Nothing, "Count datasets", |it| count(it, Dialect::V3));
action!(CountV4, GET "/api/v4/datasets/count", "count_datasets", Nothing, "Count datasets, up to a cap", |it| count(it, Dialect::V4));

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    let routes =
        routes.with::<Of<FullQuery>>().with::<Of<FullFacet>>().with::<Of<FindV3>>().with::<Of<FindV4>>();
    let routes = routes.with::<Of<FindPublic>>().with::<Of<FindOneV3>>().with::<Of<FindOneV4>>();
    routes.with::<Of<CountV3>>().with::<Of<CountV4>>()
}

fn access(request: &Request) -> Document {
    request.state().rules.read_filter(&request.caller)
}

fn dialect(version: Version) -> Dialect {
    match version {
        Version::V3 => Dialect::V3,
        Version::V4 => Dialect::V4,
    }
}

async fn full_query(request: Request) -> Result<Reply, Refusal> {
    let query = full::translate(request.parameter("fields"), request.parameter("limits"))?;
    listed(&request, &access(&request), query, Version::V3).await
}

async fn full_facet(request: Request) -> Result<Reply, Refusal> {
    let query = facets::translate(request.parameter("fields"), request.parameter("facets"))?;
    let now_ms = request.now().timestamp_millis();
    let body = request.state().store.facets(&access(&request), &query, now_ms).await?;
    Ok(Reply::Found(body))
}

async fn find(request: Request, version: Version) -> Result<Reply, Refusal> {
    if version == Version::V4 {
        request.caller.user().ok_or(Refusal::Forbidden)?;
    }
    let query = filter::translate(request.filter()?, dialect(version))?;
    listed(&request, &access(&request), query, version).await
}

async fn find_public(request: Request) -> Result<Reply, Refusal> {
    let query = filter::translate(request.filter()?, Dialect::V4)?;
    let access = request.state().rules.read_filter(&Caller::Anonymous);
    listed(&request, &access, query, Version::V4).await
}

/// A list. With `after`, even an empty one, it is an object with the place of the next page.
async fn listed(
    request: &Request,
    access: &Document,
    query: Find,
    version: Version,
) -> Result<Reply, Refusal> {
    let state = request.state();
    let after = request.parameter("after");
    let query = if after.is_some() { query.followed() } else { query };
    let cursor = after.filter(|text| !text.is_empty()).map(Cursor::parse).transpose()?;
    let page = state.store.list(access, &query, cursor.as_ref(), &|bytes| request.take(bytes)).await?;
    let mut datasets = Vec::with_capacity(page.documents.len());
    for document in &page.documents {
        let mut body = show(document, version);
        for relation in &query.include {
            body.insert(relation.name().into(), relation_of(request, document, *relation).await?);
        }
        datasets.push(Value::from(body));
    }
    Ok(Reply::Found(match after {
        None => datasets.into(),
        Some(_) => json!({"datasets": datasets, "next": page.next.map(|next| next.text())}),
    }))
}

async fn find_one(request: Request, version: Version) -> Result<Reply, Refusal> {
    if version == Version::V4 {
        request.caller.user().ok_or(Refusal::Forbidden)?;
    }
    let mut query = filter::translate(request.filter()?, dialect(version))?;
    query.page.limit = 1;
    let page =
        request.state().store.list(&access(&request), &query, None, &|bytes| request.take(bytes)).await?;
    let Some(document) = page.documents.first() else { return Ok(Reply::Empty) };
    let mut body = show(document, version);
    for relation in &query.include {
        body.insert(relation.name().into(), relation_of(&request, document, *relation).await?);
    }
    Ok(Reply::Found(body.into()))
}

async fn count(request: Request, dialect: Dialect) -> Result<Reply, Refusal> {
    let query = filter::translate(request.filter()?, dialect)?;
    let cap = request.parameter("cap").map(|cap| cap.parse::<u32>().ok().filter(|cap| *cap > 0));
    let cap =
        cap.map(|cap| cap.ok_or_else(|| Refusal::bad("cap needs a whole number from 1"))).transpose()?;
    let now_ms = request.now().timestamp_millis();
    let count = request.state().store.count(&access(&request), &query.filter, cap, now_ms).await?;
    let mut body = json!({"count": count});
    if cap.is_some_and(|cap| count >= u64::from(cap)) {
        body["capped"] = true.into();
    }
    Ok(Reply::Found(body))
}
