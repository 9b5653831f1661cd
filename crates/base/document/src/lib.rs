//! Turns a document template and a number into BSON bytes, deterministically, at memory speed.
//!
//! A [`Template`] is what a user types: a JSON object whose values are constants or generators. [`Program::compile`]
//! turns it into a program of bytes with holes, and [`Program::encode`] fills the holes for one document number. The
//! content is a function of (seed, number) alone, the same on every machine. A [`FileSource`] plays the documents of
//! a file back through the same [`Source::encode`].
//!
//! This crate knows no sockets and no time.
//!
//! ```
//! use plimsoll_document::{Identity, Program, Settings, Template};
//!
//! let template: Template = serde_json::from_str(r#"{"n": {"$number": {}}, "note": {"$text": {"bytes": 120}}}"#)?;
//! let program = Program::compile(&template, &Settings::default())?;
//! let mut out = Vec::new();
//! program.encode(7, &Identity { id: [1; 12], stamp: 1 }, &mut out);
//! assert_eq!((out.len(), out.len()), program.len_bounds());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod template;

mod settings;

mod program;

mod source;

pub mod file;

pub mod ycsb_id;

mod ranks;

mod error;

mod arguments;

mod parse;

mod generator;

mod distribution;

mod node;

mod fill;

mod size;

mod compile;

mod render;

mod random;

mod arithmetic;

pub use error::Error;
pub use file::{Encoded, FileSource, PastEnd, Reading};
pub use program::Program;
pub use ranks::{EXPONENT_MAX, Ranks};
pub use settings::{IdForm, Identity, STAMP_FIELD, Settings};
pub use source::Source;
pub use template::Template;

/// The largest document that MongoDB stores, in bytes of BSON (16 MiB).
pub const DOCUMENT_BYTES_MAX: usize = 16_777_216;

/// How deep documents and arrays may be nested: MongoDB's own limit.
pub const DEPTH_MAX: usize = 100;

/// The largest number of items that a generated array may have.
pub const ARRAY_ITEMS_MAX: usize = 1_000_000;
