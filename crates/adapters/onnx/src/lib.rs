//! Embeds texts with an ONNX model in this process.
//!
//! Read in this order: the settings ([`settings`]), the embedder ([`Embedder`]), the quality of a smaller
//! model ([`Quality`]), and the installation of the model ([`model`]). The crate must never fetch anything by
//! itself.

#[cfg(feature = "runtime")]
mod batch;
#[cfg(feature = "runtime")]
mod embedder;
#[cfg(feature = "runtime")]
mod inputs;
#[cfg(feature = "runtime")]
mod network;
#[cfg(feature = "runtime")]
mod pool;
#[cfg(feature = "runtime")]
mod runtime;
#[cfg(all(test, feature = "runtime"))]
mod testing;
#[cfg(feature = "runtime")]
mod text;
#[cfg(feature = "runtime")]
pub mod transform;
#[cfg(feature = "runtime")]
mod weights;

mod convert;
pub mod model;
mod quality;
pub mod settings;

#[cfg(feature = "runtime")]
pub use embedder::{Counts, EmbedError, Embedder, LoadError, Unfit};
#[cfg(feature = "runtime")]
pub use runtime::RuntimeError;
#[cfg(feature = "runtime")]
pub use text::TokenizerError;

pub use convert::ConvertError;
pub use quality::{Quality, cosine};
pub use settings::{Files, Limits, Model, Pooling, Precision, Settings};
