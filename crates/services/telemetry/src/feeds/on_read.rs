//! Fan-out on read: an activity is stored once, and a reader asks for those of all authors.
//!
//! Posting costs one insert, following one edge. Reading costs one index range for each author that the user follows.

use super::activity::Activity;
use super::design::{BoxFuture, Spread};
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

    /// Whom a user sees: those the user follows, and the user.
    pub(super) async fn seen_by(&self, user: &str) -> Result<Vec<String>, Error> {
        // Two who follow at the same moment may pass the limit together; nobody is left out for it.
        let mut authors = self.graph.following(user, self.following_max.saturating_mul(2)).await?;
        authors.push(user.to_owned());
        Ok(authors)
    }
}

impl Spread for OnRead {
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
        hold: &'a Reservation,
    ) -> BoxFuture<'a, Vec<Activity>> {
        Box::pin(async move { self.timeline.page(&self.seen_by(user).await?, below, limit, hold).await })
    }
}
