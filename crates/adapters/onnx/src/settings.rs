//! Describes an embedder: its model, its precision and its limits.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which model, and the limits of its texts.
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
    /// MiniLM-L6-v2, as [`crate::model::install()`] put it into the cache.
    Installed {
        /// The directory of the cache.
        cache: PathBuf,
        /// Exact, or fast.
        precision: Precision,
    },
    /// Files of the user's.
    Files(Files),
}

/// What an embedder is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// An ONNX file with an input `input_ids`, perhaps `attention_mask`, `token_type_ids` and `position_ids`, and an output of
    /// floats [texts, tokens, dimensions], or [texts, dimensions] if it pools by itself.
    pub model: PathBuf,
    /// The `tokenizer.json` that belongs to it.
    pub tokenizer: PathBuf,
    /// The library of ONNX Runtime 1.17 or newer; the installed models need 1.31.
    pub library: PathBuf,
    /// How the vector of a text is made of what the model gives.
    pub pooling: Pooling,
}

/// How the vector of a text is made of what a model gives. It is what the model was trained with: another one gives vectors too,
/// and worse ones. Whichever it is, the vector is scaled to length one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean of its tokens' vectors: MiniLM, E5.
    #[default]
    Mean,
    /// The vector of its first token, the special one that says where it begins: BGE.
    Cls,
    /// The model's own: the first output that is [texts, dimensions].
    Own,
}

/// How exact the numbers of a model are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits a number: what the model was trained to give.
    #[default]
    Fp32,
    /// 8 bits a number where most of the work is: faster, and less exact; `cargo xtask bench embed` shows both on your machine.
    /// The scale of a product is that of its whole batch, so a vector depends a little on its neighbours, unless
    /// `batch_tokens_max` is 1.
    Int8,
}

/// How much of a text is taken, and how much is computed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most tokens of a text, with the special ones; the rest is left out, and that is counted. From 8; the
    /// installed models take at most 512.
    pub tokens_max: usize,
    /// The most bytes of a text that are looked at; the rest is left out, and that is counted.
    pub text_bytes_max: usize,
    /// The most tokens of texts that are computed at once; a single text may have more.
    pub batch_tokens_max: usize,
}

/// A text needs its special tokens and some of its own.
const TOKENS_MIN: usize = 8;

impl Default for Limits {
    /// 256 tokens, as MiniLM-L6-v2 was trained with; 64 KiB; 512 tokens at once, which fit into the second cache.
    fn default() -> Self {
        Limits { tokens_max: 256, text_bytes_max: 64 << 10, batch_tokens_max: 512 }
    }
}

/// Invalid limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// Too few tokens.
    #[error("{0} tokens of a text are too few: say at least 8")]
    Tokens(usize),
    /// No text.
    #[error("no byte of a text would be looked at: say how many, such as 65536")]
    Bytes,
}

impl Limits {
    /// Checks that they leave something to embed.
    ///
    /// # Errors
    /// They leave nothing to embed.
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
    fn limits_that_leave_nothing_are_refused() {
        let with =
            |tokens_max, text_bytes_max| Limits { tokens_max, text_bytes_max, ..Limits::default() }.check();
        assert_eq!(with(7, 1), Err(LimitsError::Tokens(7)));
        assert_eq!(with(8, 0), Err(LimitsError::Bytes));
        assert_eq!(with(8, 1), Ok(()));
        assert_eq!(Limits::default().check(), Ok(()));
    }
}
