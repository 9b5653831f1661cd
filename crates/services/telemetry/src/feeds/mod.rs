//! Activity feeds: what a user sees of those they follow, and of themselves, the newest first.
//!
//! A feed shows the activities of the user and of everyone the user follows *now*, ordered by time and then by id, both
//! descending, whoever was followed when. Three designs keep that promise, each at its own price:
//!
//! * [`on_read`]: an activity is stored once; a reader asks for those of all authors.
//! * [`on_write`]: an activity is copied into the feed of every follower; a reader asks for one range.
//! * [`hybrid`]: copied into capped caches of active readers, and asked for where an author has too many followers.

pub use activity::Activity;
pub use design::{BoxFuture, Spread};
pub use error::Error;
pub use handle::{Feed, FeedQuery, Feeds, Posted};
pub use position::{Cursor, Position};
pub use settings::{Design, Settings};

mod activity;
mod error;
mod handle;
mod position;
mod settings;

mod design;
pub mod hybrid;
pub mod on_read;
pub mod on_write;

mod graph;
mod meta;
mod timeline;

mod explain;
mod query;
