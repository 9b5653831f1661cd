//! Tokenises a text.

use std::any::Any;
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use tokenizers::{Encoding, Tokenizer, TruncationParams};

use crate::settings::Limits;

/// The longest tokenizer file that is read; those of large multilingual models have 20 MB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A tokenizer could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file cannot be read.
    #[error(
        "the tokenizer {path:?} cannot be read ({source}): give the tokenizer.json that belongs to the model"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path:?} is no tokenizer ({why}): give the tokenizer.json that belongs to the model")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Makes tokens of texts.
pub(crate) struct Texts {
    tokenizer: Tokenizer,
    limits: Limits,
}

/// Whether a text was longer than the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It is there as a whole.
    Whole,
    /// Its end was left out.
    Truncated,
}

impl Texts {
    /// Reads a `tokenizer.json`. What it says of truncation and padding does not count; the limits do.
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
        let tokenizer = guarded(|| build(&text, limits)).map_err(content)?;
        Ok(Texts { tokenizer, limits })
    }

    /// Appends the numbers of a text's tokens, with the special ones that the model wants around them.
    ///
    /// # Errors
    /// What the tokenizer says. A tokenizer's panic is an error as well.
    pub(crate) fn encode(&self, text: &str, tokens: &mut Vec<i64>) -> Result<Cut, String> {
        let head = head(text, self.limits.text_bytes_max);
        let encoding = guarded(|| self.tokenizer.encode_fast(head, true).map_err(|error| error.to_string()))?;
        let beyond = beyond(&encoding, self.limits.tokens_max);
        let kept = encoding.get_ids().iter().enumerate().filter(|(place, _)| Some(*place) != beyond);
        tokens.extend(kept.map(|(_, &token)| i64::from(token)));
        let whole = head.len() == text.len() && beyond.is_none();
        Ok(if whole { Cut::Whole } else { Cut::Truncated })
    }

    /// The highest number that a token can have.
    pub(crate) fn token_max(&self) -> i64 {
        self.tokenizer.get_vocab(true).into_values().max().map_or(0, i64::from)
    }
}

/// Where the one token of the text is that there is no room for, if it has one.
fn beyond(encoding: &Encoding, tokens_max: usize) -> Option<usize> {
    let special = encoding.get_special_tokens_mask();
    let last = special.iter().rposition(|&special| special == 0);
    last.filter(|_| special.len() > tokens_max)
}

fn build(text: &[u8], limits: Limits) -> Result<Tokenizer, String> {
    let mut tokenizer = Tokenizer::from_bytes(text).map_err(|error| error.to_string())?;
    // One more than there is room for: it stops reading where it has enough, so that nothing else tells that there is more.
    let truncation = TruncationParams { max_length: limits.tokens_max + 1, ..TruncationParams::default() };
    tokenizer.with_padding(None);
    tokenizer.with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

/// The beginning of a text of at most so many bytes, up to a whole character.
fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Runs what works on a file of the user's, of which not every mistake is an error in the library: some are panics.
fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(words(panic.as_ref())))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the tokenizer broke off: {}", text.unwrap_or("it does not say why"))
}
