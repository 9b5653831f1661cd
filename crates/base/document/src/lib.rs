//! Encodes the document of a template and a number as BSON, deterministically and at memory speed.
//!
//! A user types a [`Template`]: a JSON object whose values are constants or generators. [`Program::compile`] compiles it to
//! bytes with holes, and [`Program::encode`] fills the holes for one document number. The content depends only on seed and
//! number and is the same on every machine. A [`FileSource`] replays the documents of a file through the same
//! [`Source::encode`].
//!
//! This crate must not know sockets or time.
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
pub use plimsoll_element::DEPTH_MAX;
pub use program::Program;
pub use ranks::{EXPONENT_MAX, Ranks};
pub use settings::{IdForm, Identity, STAMP_FIELD, Settings};
pub use source::Source;
pub use template::Template;

/// The largest document that MongoDB stores, in bytes of BSON (16 MiB).
pub const DOCUMENT_BYTES_MAX: usize = 16_777_216;

/// The maximum number of items of a generated array.
pub const ARRAY_ITEMS_MAX: usize = 1_000_000;
