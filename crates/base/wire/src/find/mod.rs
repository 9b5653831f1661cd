//! The hot query path: find by filter, and cursors for reading everything back.

pub use cursor::Cursor;
pub use reply::{Documents, FindReply};
pub use request::FindRequest;
pub use spec::{FindSpec, ReadPreference};

mod spec;

mod request;
mod send;

mod cursor;
pub(crate) mod reply;
