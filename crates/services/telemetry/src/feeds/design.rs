//! The port of the designs: how activities come to those who see them.

use std::pin::Pin;

use super::activity::Activity;
use super::error::Error;
use super::position::Position;
use plimsoll_service::Reservation;

/// An asynchronous answer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// How activities come to those who see them. When a method is called, the timeline and the edges have been changed
/// already; everything may be called again after a failure.
///
/// The contract, which one test holds for every design: [`Spread::read`] gives what the timeline has of the user and of
/// those the user follows now.
pub trait Spread: Send + Sync {
    /// An activity is in the timeline: brings it to those who follow its author.
    fn spread<'a>(&'a self, activity: &'a Activity) -> BoxFuture<'a, ()>;

    /// A user follows an author from now on.
    fn followed<'a>(&'a self, user: &'a str, author: &'a str) -> BoxFuture<'a, ()>;

    /// A user follows an author no more.
    fn unfollowed<'a>(&'a self, user: &'a str, author: &'a str) -> BoxFuture<'a, ()>;

    /// The timeline and the edges were filled in bulk while nobody used them; `activities` are those that the user sees. A design
    /// without copies has nothing to do.
    fn filled<'a>(&'a self, _user: &'a str, _activities: &'a [&'a Activity]) -> BoxFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// What a user sees below a place, the newest first: `limit` activities, fewer only at the end. Its memory is taken from
    /// `hold`.
    fn read<'a>(
        &'a self,
        user: &'a str,
        below: Option<&'a Position>,
        limit: u32,
        hold: &'a Reservation,
    ) -> BoxFuture<'a, Vec<Activity>>;
}
