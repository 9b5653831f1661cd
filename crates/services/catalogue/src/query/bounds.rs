//! Bounds the work of a query.

/// The longest parameter, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;
/// The deepest nesting.
pub(super) const DEPTH_MAX: u32 = 12;
/// The maximum number of conditions in a query.
pub(super) const CONDITIONS_MAX: u32 = 256;
/// The maximum number of values in a query.
pub(super) const VALUES_MAX: u32 = 4_096;
/// The longest name of a field, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 512;
/// The maximum number of parts of a field's name.
pub(super) const NAME_PARTS_MAX: usize = 16;
/// The longest regular expression, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 256;
/// The maximum number of quantifiers in a regular expression.
pub(super) const QUANTIFIERS_MAX: u32 = 8;
/// The longest text of a text search, in bytes.
pub(super) const SEARCH_BYTES_MAX: usize = 256;
/// The maximum number of words in a text search.
pub(super) const SEARCH_WORDS_MAX: usize = 8;
/// The maximum number of fields in a projection.
pub(super) const FIELDS_MAX: usize = 200;
/// The maximum number of fields in a sort.
pub(super) const SORTS_MAX: usize = 5;
/// The maximum number of facets in a query.
pub(super) const FACETS_MAX: usize = 32;
/// The maximum number of conditions on metadata.
pub(super) const SCIENTIFIC_MAX: usize = 32;
/// The maximum number of relations in a query.
pub(super) const INCLUDES_MAX: usize = 16;
/// The largest page with relations, because each relation takes a read.
pub(super) const LIMIT_WITH_RELATIONS_MAX: u64 = 100;
/// The largest page.
pub const LIMIT_MAX: u64 = 10_000;
/// The maximum number of documents that a page may skip. A cursor reaches further.
pub const SKIP_MAX: u64 = 100_000;
