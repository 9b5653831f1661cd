//! Tokenises a text.

use std::any::Any;
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use tokenizers::{Encoding, Tokenizer, TruncationParams};

use crate::settings::Limits;

/// The longest tokenizer file; large multilingual models have 20 MB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A tokenizer cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file cannot be read.
    #[error("the tokenizer {path:?} cannot be read ({source}): name the tokenizer.json of the model")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a tokenizer.
    #[error("{path:?} is not a tokenizer ({why}): name the tokenizer.json of the model")]
    Content {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// Tokenises texts.
pub(crate) struct Texts {
    tokenizer: Tokenizer,
    limits: Limits,
}

/// Whether a text was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The text is complete.
    Whole,
    /// The end of the text was cut off.
    Truncated,
}

impl Texts {
    /// Reads a `tokenizer.json`. The limits replace its truncation and padding.
    ///
    /// # Errors
    /// [`TokenizerError`].
    pub(crate) fn load(path: &Path, limits: Limits) -> Result<Self, TokenizerError> {
        let unread = |source| TokenizerError::Read { path: path.to_owned(), source };
        let content = |why| TokenizerError::Content { path: path.to_owned(), why };
        let bytes = fs::metadata(path).map_err(unread)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(content(format!("it has {bytes} bytes, more than {FILE_BYTES_MAX}")));
        }
        let text = fs::read(path).map_err(unread)?;
        let tokenizer = catch_panic(|| build(&text, limits)).map_err(content)?;
        Ok(Texts { tokenizer, limits })
    }

    /// Appends the numbers of a text's tokens, including the model's special ones.
    ///
    /// # Errors
    /// An error or a panic of the tokenizer.
    pub(crate) fn encode(&self, text: &str, tokens: &mut Vec<i64>) -> Result<Cut, String> {
        let head = head(text, self.limits.text_bytes_max);
        let encoding =
            catch_panic(|| self.tokenizer.encode_fast(head, true).map_err(|error| error.to_string()))?;
        let first_excess = first_excess(&encoding, self.limits.tokens_max);
        let kept = encoding.get_ids().iter().enumerate().filter(|(place, _)| Some(*place) != first_excess);
        tokens.extend(kept.map(|(_, &token)| i64::from(token)));
        let whole = head.len() == text.len() && first_excess.is_none();
        Ok(if whole { Cut::Whole } else { Cut::Truncated })
    }

    /// The highest number of a token.
    pub(crate) fn token_max(&self) -> i64 {
        self.tokenizer.get_vocab(true).into_values().max().map_or(0, i64::from)
    }
}

/// The position of the one token above the limit, the last that is not special; `None` if the text fits.
fn first_excess(encoding: &Encoding, tokens_max: usize) -> Option<usize> {
    let special = encoding.get_special_tokens_mask();
    let last = special.iter().rposition(|&special| special == 0);
    last.filter(|_| special.len() > tokens_max)
}

fn build(text: &[u8], limits: Limits) -> Result<Tokenizer, String> {
    let mut tokenizer = Tokenizer::from_bytes(text).map_err(|error| error.to_string())?;
    // One token above the limit: the tokenizer stops at its limit, so only this token reveals a longer text.
    let truncation = TruncationParams { max_length: limits.tokens_max + 1, ..TruncationParams::default() };
    tokenizer.with_padding(None);
    tokenizer.with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

/// The beginning of a text, at most `bytes_max` bytes, in whole characters.
fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Runs a library call on a file of the user. Some invalid files make the library panic.
fn catch_panic<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(words(panic.as_ref())))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the tokenizer panicked: {}", text.unwrap_or("no message"))
}
