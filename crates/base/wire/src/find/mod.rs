//! Finds documents by filter, and reads whole collections through cursors.

pub use cursor::Cursor;
pub use reply::{Documents, FindReply};
pub use request::FindRequest;
pub use spec::FindSpec;

mod spec;

mod request;
mod send;

mod cursor;
pub(crate) mod reply;
