//! Defines the port of the designs, which deliver activities to feeds.

use std::pin::Pin;

use super::activity::Activity;
use super::error::Error;
use super::position::Position;
use plimsoll_service::Reservation;

/// An asynchronous result.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Delivers activities to feeds. Callers change the timeline and the edges first, and may repeat any call after a failure.
///
/// The contract, tested for every design: [`Delivery::read`] returns the timeline's activities of the user and of all users
/// followed now.
pub trait Delivery: Send + Sync {
    /// Delivers a stored activity to the followers of its author.
    fn spread<'a>(&'a self, activity: &'a Activity) -> BoxFuture<'a, ()>;

    /// Adds an author to a user's feed.
    fn followed<'a>(&'a self, user: &'a str, author: &'a str) -> BoxFuture<'a, ()>;

    /// Removes an author from a user's feed.
    fn unfollowed<'a>(&'a self, user: &'a str, author: &'a str) -> BoxFuture<'a, ()>;

    /// Fills a user's feed after a bulk load of timeline and edges; `activities` are those of the feed. Designs without copies
    /// ignore this.
    fn filled<'a>(&'a self, _user: &'a str, _activities: &'a [&'a Activity]) -> BoxFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// A user's feed below a position, newest first: `limit` activities, fewer only at the end. `memory` reserves their memory.
    fn read<'a>(
        &'a self,
        user: &'a str,
        below: Option<&'a Position>,
        limit: u32,
        memory: &'a Reservation,
    ) -> BoxFuture<'a, Vec<Activity>>;
}
