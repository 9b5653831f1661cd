//! Serves a science catalogue over HTTP as SciCat's clients expect, stored in MongoDB under SciCat's names.
//!
//! It knows only `plimsoll-service`: the measured system shares no code with the measuring tool.
//!
//! * [`Refusal`]: a refused request, in SciCat's words and shapes.
//! * [`query`]: translates the filters, limits and facets of clients into queries of MongoDB.
//! * [`access`]: decides whether a caller may read or change a dataset.
//! * [`documents`]: makes and shows datasets, file blocks, attachments and history entries.
//! * [`storage`]: keeps them in MongoDB.
//! * [`api`]: the HTTP endpoints; [`accounts`]: functional accounts; [`guesses`]: a limit on failed logins; [`oidc`]: logins at an issuer; [`settings`]: the settings file; [`serve`]: starts the service;
//!   [`fill`]: prefills its database.

pub mod access;
pub mod accounts;
pub mod api;
pub mod documents;
pub mod fill;
pub mod guesses;
pub mod oidc;
pub mod query;
pub mod serve;
pub mod settings;
pub mod storage;

mod file;
mod mixed;
mod moment;
mod refusal;

pub use refusal::Refusal;
