//! Makes stored documents of bodies, and bodies of stored documents.

pub mod schema;

pub mod metadata;
