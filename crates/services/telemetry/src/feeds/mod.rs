//! Stores and reads activity feeds: the activities of a user and of the users they follow, newest first.
//!
//! A feed depends only on the users followed *now*, not on the start of following. It is ordered by time and then by id, both
//! descending. Three designs fulfil this contract at different costs:
//!
//! * [`on_read`]: stores an activity once; a read queries all authors.
//! * [`on_write`]: copies an activity into the feed of every follower; a read queries one range.
//! * [`hybrid`]: copies activities into capped caches of active readers, and queries authors with too many followers.

pub use activity::Activity;
pub use design::{BoxFuture, Delivery};
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
