//! Lists and counts datasets.

use bson::Document;
use plimsoll_service::Routes;
use serde_json::json;

use super::action::{Of, Reply, Request, action};
use super::datasets::with_relations;
use super::state::State;
use crate::Refusal;
use crate::access::Caller;
use crate::documents::dataset::Version;
use crate::query::page::Cursor;
use crate::query::{Dialect, Find, facets, filter, full};

action!(FullQuery, GET "/api/v3/datasets/fullquery", "full_query", Nothing, "Find datasets by fields", full_query);
action!(FacetV3, GET "/api/v3/datasets/fullfacet", "full_facet_v3", Nothing, "Count the values of fields", |it| facet(it, View::Old));
action!(FacetV4, GET "/api/v4/datasets/fullfacet", "full_facet", Nothing, "Count the values of fields", |it| facet(it, View::Own));
action!(FacetPublic, GET "/api/v4/datasets/public/fullfacet", "full_facet_public", Nothing, "Count the values of published datasets", |it| facet(it, View::Public));
action!(FindV3, GET "/api/v3/datasets", "find_datasets_v3", Nothing, "Find datasets", |it| find(it, View::Old));
action!(FindV4, GET "/api/v4/datasets", "find_datasets", Nothing, "Find datasets", |it| find(it, View::Own));
action!(FindPublic, GET "/api/v4/datasets/public", "find_public_datasets", Nothing, "Find published datasets", |it| find(it, View::Public));
action!(OneV3, GET "/api/v3/datasets/findone", "find_dataset_v3", Nothing, "Find one dataset", |it| find_one(it, View::Old));
action!(OneV4, GET "/api/v4/datasets/findone", "find_dataset", Nothing, "Find one dataset", |it| find_one(it, View::Own));
action!(OnePublic, GET "/api/v4/datasets/public/findone", "find_public_dataset", Nothing, "Find one published dataset", |it| find_one(it, View::Public));
action!(CountV3, GET "/api/v3/datasets/count", "count_datasets_v3", Nothing, "Count datasets", |it| count(it, View::Old));
action!(CountV4, GET "/api/v4/datasets/count", "count_datasets", Nothing, "Count datasets, up to a cap", |it| count(it, View::Own));
action!(CountPublic, GET "/api/v4/datasets/public/count", "count_public_datasets", Nothing, "Count published datasets", |it| count(it, View::Public));

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    let routes = routes.with::<Of<FullQuery>>().with::<Of<FacetV3>>().with::<Of<FacetV4>>();
    let routes = routes.with::<Of<FacetPublic>>().with::<Of<FindV3>>().with::<Of<FindV4>>();
    let routes =
        routes.with::<Of<FindPublic>>().with::<Of<OneV3>>().with::<Of<OneV4>>().with::<Of<OnePublic>>();
    routes.with::<Of<CountV3>>().with::<Of<CountV4>>().with::<Of<CountPublic>>()
}

/// The datasets that a list covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// Version 3: those that the caller may read.
    Old,
    /// Version 4: those that a user may read.
    Own,
    /// Version 4: the published ones, for every caller.
    Public,
}

impl View {
    const fn version(self) -> Version {
        match self {
            Self::Old => Version::V3,
            Self::Own | Self::Public => Version::V4,
        }
    }

    const fn dialect(self) -> Dialect {
        match self {
            Self::Old => Dialect::V3,
            Self::Own | Self::Public => Dialect::V4,
        }
    }

    /// The access part of a query.
    fn access(self, request: &Request) -> Result<Document, Refusal> {
        let rules = &request.state().rules;
        match self {
            Self::Own if request.caller.user().is_none() => Err(Refusal::Forbidden),
            Self::Public => Ok(rules.read_filter(&Caller::Anonymous)),
            Self::Old | Self::Own => Ok(rules.read_filter(&request.caller)),
        }
    }
}

async fn full_query(request: Request) -> Result<Reply, Refusal> {
    let query = full::translate(request.parameter("fields"), request.parameter("limits"))?;
    listed(&request, &View::Old.access(&request)?, query, Version::V3).await
}

async fn facet(request: Request, view: View) -> Result<Reply, Refusal> {
    let access = view.access(&request)?;
    let query = facets::translate(request.parameter("fields"), request.parameter("facets"))?;
    let clock = || request.now().timestamp_millis();
    Ok(Reply::Found(
        request.state().store.facets(&access, &query, &clock, &|bytes| request.take(bytes)).await?,
    ))
}

async fn find(request: Request, view: View) -> Result<Reply, Refusal> {
    let access = view.access(&request)?;
    let query = filter::translate(request.filter()?, view.dialect())?;
    listed(&request, &access, query, view.version()).await
}

/// Answers a list. If the query has `after`, even empty, the answer is an object with the cursor of the next page.
async fn listed(
    request: &Request,
    access: &Document,
    query: Find,
    version: Version,
) -> Result<Reply, Refusal> {
    let state = request.state();
    let after = request.parameter("after");
    let cursor = after.filter(|text| !text.is_empty()).map(Cursor::parse).transpose()?;
    let query = if after.is_some() { query.followed(cursor.as_ref())? } else { query };
    let clock = || request.now().timestamp_millis();
    let room = |bytes| request.take(bytes);
    let page = state.store.list(access, &query, cursor.as_ref(), &clock, &room).await?;
    let mut datasets = Vec::with_capacity(page.documents.len());
    for document in &page.documents {
        datasets.push(with_relations(request, document, &query.include, version).await?);
    }
    Ok(Reply::Found(match after {
        None => datasets.into(),
        Some(_) => json!({"datasets": datasets, "next": page.next.map(|next| next.text())}),
    }))
}

async fn find_one(request: Request, view: View) -> Result<Reply, Refusal> {
    let access = view.access(&request)?;
    let mut query = filter::translate(request.filter()?, view.dialect())?;
    query.page.limit = 1;
    let (clock, room) = (|| request.now().timestamp_millis(), |bytes| request.take(bytes));
    let page = request.state().store.list(&access, &query, None, &clock, &room).await?;
    let Some(document) = page.documents.first() else { return Ok(Reply::Empty) };
    Ok(Reply::Found(with_relations(&request, document, &query.include, view.version()).await?.into()))
}

async fn count(request: Request, view: View) -> Result<Reply, Refusal> {
    let access = view.access(&request)?;
    let query = filter::translate(request.filter()?, view.dialect())?;
    let cap = request.parameter("cap").map(|cap| cap.parse::<u32>().ok().filter(|cap| *cap > 0));
    let cap =
        cap.map(|cap| cap.ok_or_else(|| Refusal::bad("cap needs a whole number from 1"))).transpose()?;
    let clock = || request.now().timestamp_millis();
    let count = request.state().store.count(&access, &query.filter, cap, &clock).await?;
    let mut body = json!({"count": count});
    if cap.is_some_and(|cap| count >= u64::from(cap)) {
        body["capped"] = true.into();
    }
    Ok(Reply::Found(body))
}
