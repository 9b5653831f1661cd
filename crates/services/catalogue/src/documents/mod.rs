//! Turns request bodies into stored documents, and stored documents into answer bodies. Reads no database and no clock.
//!
//! * [`schema`]: the fields of a dataset; [`value`]: JSON into BSON by type; [`mod@json`]: any JSON into BSON, and back.
//! * [`metadata`]: keys and SI units of scientific metadata.
//! * [`stamp`]: the time of a change; [`search`]: the index of texts.
//! * [`dataset`], [`block`], [`attachment`], [`history`]: the documents.

pub mod schema;

pub mod json;

pub mod metadata;
pub mod search;
pub mod stamp;
pub mod value;

pub mod dataset;

pub mod attachment;
pub mod block;
pub mod history;
