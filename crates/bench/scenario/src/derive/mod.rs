//! Derives a scenario from documents of an existing collection: their fields, types, sizes and distributions.
//!
//! In reading order: [`Profile`] folds over the documents with bounded memory, [`scenario`] writes the scenario. Values are
//! synthetic unless their copy is requested; names of fields and ranges of numbers and dates are taken over.

mod profile;

mod scenario;

mod template;

mod labels;

mod yaml;

mod values;

mod distinct;
mod numbers;

pub use profile::Profile;
pub use scenario::{CopyValues, Origin, scenario};
