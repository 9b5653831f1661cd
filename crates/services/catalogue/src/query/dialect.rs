//! Names the languages of filters.

/// The language of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The words of LoopBack (`inq`, `like`, `or`) and the accepted operators of MongoDB, on any field.
    V3,
    /// The accepted operators of MongoDB, on known properties.
    V4,
}
