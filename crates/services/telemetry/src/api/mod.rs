//! Defines the HTTP interface: endpoints, one file each, in the order of the description.

pub mod ingest;
pub mod ingest_batch;

pub mod latest;
pub mod range;
pub mod statistics;
pub mod statistics_many;

pub mod feed;
pub mod follow;
pub mod follow_many;
pub mod post;
pub mod unfollow;

pub mod pool_metrics;
pub mod queries;
pub mod state;

mod batch;
mod commit_metrics;
mod problems;
mod schemas;
mod window;

use plimsoll_service::{About, Clock, Routes, Service};
use serde_json::Value;

use self::state::State;
use crate::scopes;

/// Makes the service of a state.
pub fn service(state: State, clock: Clock) -> Service<State> {
    Service::new(about(), routes(), state, clock)
}

/// The OpenAPI description.
pub fn document() -> Value {
    plimsoll_service::document(&about(), routes())
}

fn about() -> About {
    About {
        name: "telemetry",
        title: "Telemetry and activity feeds",
        version: env!("CARGO_PKG_VERSION"),
        description: "Readings of sensors with statistics, and feeds of the activities of users. Timestamps are milliseconds \
                      since 1970 (UTC) in answers, and these or RFC 3339 in requests. A refused request is answered with \
                      a problem (RFC 9457).",
        metrics_prefix: "telemetry",
        scopes: scopes::ALL,
        schemas: schemas::schemas(),
    }
}

fn routes() -> Routes<State> {
    Routes::new()
        .with::<ingest::Ingest>()
        .with::<ingest_batch::IngestBatch>()
        .with::<statistics::Statistics>()
        .with::<statistics_many::StatisticsMany>()
        .with::<latest::Latest>()
        .with::<range::Range>()
        .with::<post::Post>()
        .with::<feed::ReadFeed>()
        .with::<follow::Follow>()
        .with::<follow_many::FollowMany>()
        .with::<unfollow::Unfollow>()
}
