//! Events as documents: what they are called ([`identity`]) and what they look like ([`form`]).

pub(crate) mod fields;
pub mod form;
pub mod identity;
mod json;
