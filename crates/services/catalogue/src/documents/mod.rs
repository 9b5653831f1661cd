//! Makes stored documents of bodies, and bodies of stored documents. It reads no database and no clock.
//!
//! * [`schema`]: the fields of a dataset; [`value`]: JSON into BSON by type, and back.
//! * [`metadata`]: keys and SI units of scientific metadata.
//! * [`dataset`], [`block`], [`attachment`], [`history`]: the documents.

pub mod schema;

pub mod value;

pub mod metadata;

pub mod dataset;

pub mod attachment;
pub mod block;
pub mod history;
