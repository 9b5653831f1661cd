//! Makes read-only pages for browsers: a list of instances, and an instance with its history and its definition as a diagram. They need no
//! script.

pub(crate) mod instance;
pub(crate) mod list;
pub(crate) mod style;

mod diagram;
mod frame;
mod layout;
