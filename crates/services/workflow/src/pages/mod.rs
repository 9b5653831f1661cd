//! Makes read-only pages for browsers, without scripts: a list of instances, and an instance with its history and its definition as a
//! diagram.

pub(crate) mod instance;
pub(crate) mod list;
pub(crate) mod style;

mod diagram;
mod frame;
mod layout;
