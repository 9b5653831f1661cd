//! Describes an embedder: its model, its precision and its limits.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of an embedder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The model.
    pub model: Model,
    /// The limits.
    pub limits: Limits,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// MiniLM-L6-v2, as [`crate::model::install()`] installs it.
    Installed {
        /// The directory of the cache.
        cache: PathBuf,
        /// The precision.
        precision: Precision,
    },
    /// The user's files.
    Files(Files),
}

/// The files of an embedder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// An ONNX file with an input `input_ids`, optionally `attention_mask`, `token_type_ids` and
    /// `position_ids`, and an output of floats [texts, tokens, dimensions], or [texts, dimensions] if it
    /// pools by itself.
    pub model: PathBuf,
    /// The `tokenizer.json` of the model.
    pub tokenizer: PathBuf,
    /// The library of ONNX Runtime 1.17 or newer; the installed models need 1.31.
    pub library: PathBuf,
    /// The pooling of the model's output.
    pub pooling: Pooling,
}

/// The rule that pools a model's output into the vector of a text. It must be the pooling of the model's
/// training: another pooling returns worse vectors. The vector is always scaled to length one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean of the tokens' vectors: MiniLM, E5.
    #[default]
    Mean,
    /// The vector of the first token, a special one: BGE.
    Cls,
    /// The model's own pooling: the first output that is [texts, dimensions].
    Own,
}

/// The precision of a model's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits a number, as in the training.
    #[default]
    Fp32,
    /// 8 bits a number for most of the work: faster, and less exact; `cargo xtask bench embed` measures both
    /// on your machine. All texts of a batch share the scale of each matrix product, so a vector depends
    /// slightly on the other texts, unless `batch_tokens_max` is 1.
    Int8,
}

/// Limits of a text and of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of tokens of a text, special ones included; the rest is cut off and counted. At
    /// least 8; the installed models accept at most 512.
    pub tokens_max: usize,
    /// The largest number of bytes of a text; the rest is cut off and counted.
    pub text_bytes_max: usize,
    /// The largest number of tokens in one batch; a single text may have more.
    pub batch_tokens_max: usize,
}

/// The smallest limit: the special tokens of a text and a few of its words.
const TOKENS_MIN: usize = 8;

impl Default for Limits {
    /// 256 tokens, as in MiniLM-L6-v2's training; 64 KiB; 512 tokens in a batch, which fit into the
    /// second-level cache.
    fn default() -> Self {
        Limits { tokens_max: 256, text_bytes_max: 64 << 10, batch_tokens_max: 512 }
    }
}

/// Invalid limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// Too few tokens.
    #[error("{0} tokens of a text are too few: give at least 8")]
    Tokens(usize),
    /// The limit excludes every text.
    #[error("the limit of 0 bytes excludes every text: give a number, such as 65536")]
    Bytes,
}

impl Limits {
    /// Checks that the limits leave something to embed.
    ///
    /// # Errors
    /// The limits exclude every text.
    pub fn check(&self) -> Result<(), LimitsError> {
        match self {
            Limits { tokens_max, .. } if *tokens_max < TOKENS_MIN => Err(LimitsError::Tokens(*tokens_max)),
            Limits { text_bytes_max: 0, .. } => Err(LimitsError::Bytes),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_exclude_every_text_are_refused() {
        let with =
            |tokens_max, text_bytes_max| Limits { tokens_max, text_bytes_max, ..Limits::default() }.check();
        assert_eq!(with(7, 1), Err(LimitsError::Tokens(7)));
        assert_eq!(with(8, 0), Err(LimitsError::Bytes));
        assert_eq!(with(8, 1), Ok(()));
        assert_eq!(Limits::default().check(), Ok(()));
    }
}
