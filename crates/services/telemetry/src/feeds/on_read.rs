//! Implements fan-out on read: stores an activity once; a read queries all authors.
//!
//! A post costs one insert. Following an author costs one edge. A read costs one index range for each
//! followed author.

use super::activity::Activity;
use super::design::{BoxFuture, Delivery};
use super::error::Error;
use super::graph::Graph;
use super::position::Position;
use super::timeline::Timeline;
use plimsoll_service::Reservation;

/// Fan-out on read.
#[derive(Clone, Debug)]
pub struct OnRead {
    graph: Graph,
    timeline: Timeline,
    following_max: u32,
}

impl OnRead {
    pub(super) fn new(graph: Graph, timeline: Timeline, following_max: u32) -> Self {
        Self { graph, timeline, following_max }
    }

    /// The authors of a user's feed: the followed ones, and the user.
    pub(super) async fn seen_by(&self, user: &str) -> Result<Vec<String>, Error> {
        // Concurrent follows may exceed the limit; all of them count.
        let mut authors = self.graph.following(user, self.following_max.saturating_mul(2)).await?;
        authors.push(user.to_owned());
        Ok(authors)
    }
}

impl Delivery for OnRead {
    fn spread<'a>(&'a self, _: &'a Activity) -> BoxFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn followed<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn unfollowed<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn read<'a>(
        &'a self,
        user: &'a str,
        below: Option<&'a Position>,
        limit: u32,
        memory: &'a Reservation,
    ) -> BoxFuture<'a, Vec<Activity>> {
        Box::pin(async move { self.timeline.page(&self.seen_by(user).await?, below, limit, memory).await })
    }
}
