//! What a pipeline asks of the outside: each file is one port and says what its implementor promises.

pub mod positions;
pub mod sink;
pub mod source;
pub mod transform;
