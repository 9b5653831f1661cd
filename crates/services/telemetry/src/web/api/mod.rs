//! The endpoints, one file each, in the order of the interface.

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

pub mod healthz;
pub mod metrics;
pub mod openapi;
pub mod readyz;

mod batch;
mod describe;
mod fault;
mod schemas;
mod window;
