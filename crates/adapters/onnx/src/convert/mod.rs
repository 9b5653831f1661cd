//! Builds the ONNX file of MiniLM-L6-v2 from its trained weights, because no registry offers a file that is
//! fast and exact in ONNX Runtime.

mod bert;
mod graph;
mod proto;
mod quantise;
#[cfg(all(test, feature = "runtime"))]
pub(crate) mod testing;
mod weights;

use crate::settings::Precision;
use quantise::Range;
use weights::Weights;

/// The version of the generated files: another version needs another installation.
pub(crate) const VERSION: u32 = 1;

/// A model could not be built.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The weights are not those of MiniLM-L6-v2.
    #[error("the weights are not those of all-MiniLM-L6-v2: {0}")]
    Weights(String),
}

/// Builds the ONNX file with these weights (a safetensors file). Input `input_ids`: integers [texts, tokens],
/// without padding, so there is no mask. Output `last_hidden_state`: floats [texts, tokens, 384].
///
/// # Errors
/// [`ConvertError::Weights`].
pub(crate) fn minilm(weights: &[u8], precision: Precision) -> Result<Vec<u8>, ConvertError> {
    bert::build(&Weights::read(weights)?, precision, Range::of_this_machine())
}
