//! Embeds texts: tokenises, batches, runs the model, pools.

use std::path::PathBuf;

use crate::batch;
use crate::model::VerifyError;
use crate::network::Network;
use crate::pool;
use crate::runtime::{NetworkError, RuntimeError};
use crate::settings::{Files, Limits, LimitsError, Settings};
use crate::text::{Cut, Texts, TokenizerError};
use crate::weights::Weights;

/// A model and its tokenizer for one thread: every worker has its own.
pub struct Embedder {
    texts: Texts,
    network: Network,
    limits: Limits,
    counts: Counts,
}

/// The amount of work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Texts that got a vector.
    pub texts: u64,
    /// The computed tokens, special ones included.
    pub tokens: u64,
    /// Texts whose end was cut off.
    pub truncated: u64,
    /// Runs of the model.
    pub batches: u64,
}

/// An embedder cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The installed model is missing or altered.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The limits exclude every text.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The tokenizer is unusable.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// ONNX Runtime is unusable.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The model is unusable.
    #[error(
        "{path:?} is not a usable model ({why}): name an ONNX file that returns a vector for each token (or for each text, \
         with `pooling: own`), or run `plimsoll model install`"
    )]
    Model {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

impl LoadError {
    /// Assigns an error to one of the files.
    pub(crate) fn of(error: NetworkError, files: &Files) -> Self {
        match error {
            NetworkError::Runtime(error) => LoadError::Runtime(error),
            NetworkError::Model(why) => LoadError::Model { path: files.model.clone(), why },
        }
    }
}

/// Texts cannot be embedded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The texts without a vector, in ascending order; all other texts have a vector.
    #[error("{} of the texts have no vector, first {}: leave them out", .0.len(), first(.0))]
    Texts(Vec<Unfit>),
    /// The model failed; no text has a vector.
    #[error("the model failed ({0}): does the tokenizer belong to it?")]
    Run(String),
}

/// A text without a vector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text {text}: {why}")]
pub struct Unfit {
    /// The text's number.
    pub text: usize,
    /// The reason.
    pub why: String,
}

fn first(unfit: &[Unfit]) -> String {
    unfit.first().map(Unfit::to_string).unwrap_or_default()
}

/// The tokens of consecutive texts.
#[derive(Default)]
struct Tokens {
    all: Vec<i64>,
    lengths: Vec<usize>,
    starts: Vec<usize>,
    truncated: u64,
    unfit: Vec<Unfit>,
}

impl Embedder {
    /// Loads a model; verifies the digests of an installed one first.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(settings: &Settings) -> Result<Self, LoadError> {
        settings.limits.check()?;
        Embedder::open(&settings.model.files()?, settings.limits)
    }

    /// Loads a model from unverified files. It runs once, so that mismatches are found now.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn open(files: &Files, limits: Limits) -> Result<Self, LoadError> {
        Embedder::with(files, limits, None)
    }

    /// Loads a model with shared weights of the same file.
    pub(crate) fn with(files: &Files, limits: Limits, weights: Option<&Weights>) -> Result<Self, LoadError> {
        limits.check()?;
        let texts = Texts::load(&files.tokenizer, limits)?;
        let (token_max, tokens_max) = (texts.token_max(), limits.tokens_max);
        let network = Network::load(files, token_max, tokens_max, weights);
        let network = network.map_err(|error| LoadError::of(error, files))?;
        Ok(Embedder { texts, network, limits, counts: Counts::default() })
    }

    /// The number of dimensions of a vector.
    pub fn dimensions(&self) -> usize {
        self.network.dimensions()
    }

    /// The amount of work so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Computes a vector for each text, from its tokens' vectors as [`crate::Pooling`] says, scaled to length
    /// one. `out` then contains `texts.len() × dimensions()` numbers, in the order of the texts. An empty
    /// text has the vector of its special tokens; the end of a long text is cut off and counted.
    ///
    /// # Errors
    /// [`EmbedError::Texts`]: some texts have no tokens, or a vector without a direction. `out` contains the
    /// vectors of the others, and undefined numbers for these texts. [`EmbedError::Run`]: `out` is undefined.
    pub fn embed(&mut self, texts: &[&str], out: &mut Vec<f32>) -> Result<(), EmbedError> {
        let mut tokens = self.tokens(texts);
        let dimensions = self.dimensions();
        out.clear();
        out.resize(texts.len() * dimensions, 0.0);
        let (order, batches) = batch::plan(&tokens.lengths, self.limits.batch_tokens_max);
        let mut together = Vec::new();
        for batch in &batches {
            let order = &order[batch.texts.clone()];
            together.clear();
            order.iter().for_each(|&text| together.extend_from_slice(tokens.of(text)));
            let take = |number: usize, vectors: &[f32]| {
                let text = order[number];
                if !pool::mean_of_length_one(vectors, &mut out[text * dimensions..][..dimensions]) {
                    tokens.unfit.push(Unfit { text, why: "its vector has no direction".into() });
                }
            };
            self.network.run(&together, order.len(), take).map_err(EmbedError::Run)?;
        }
        self.count(&tokens, batches.len());
        tokens.unfit.sort_by_key(|unfit| unfit.text);
        if tokens.unfit.is_empty() { Ok(()) } else { Err(EmbedError::Texts(tokens.unfit)) }
    }

    fn tokens(&self, texts: &[&str]) -> Tokens {
        let mut tokens = Tokens::default();
        for (number, text) in texts.iter().enumerate() {
            let start = tokens.all.len();
            let why = match self.texts.encode(text, &mut tokens.all) {
                Err(why) => Some(why),
                Ok(_) if tokens.all.len() == start => Some("the tokenizer returns no tokens".into()),
                Ok(cut) => {
                    tokens.truncated += u64::from(cut == Cut::Truncated);
                    None
                }
            };
            tokens.unfit.extend(why.map(|why| Unfit { text: number, why }));
            tokens.lengths.push(tokens.all.len() - start);
            tokens.starts.push(start);
        }
        tokens
    }

    fn count(&mut self, tokens: &Tokens, batches: usize) {
        self.counts.texts += (tokens.lengths.len() - tokens.unfit.len()) as u64;
        self.counts.tokens += tokens.all.len() as u64;
        self.counts.truncated += tokens.truncated;
        self.counts.batches += batches as u64;
    }
}

impl Tokens {
    /// The tokens of a text.
    fn of(&self, text: usize) -> &[i64] {
        &self.all[self.starts[text]..][..self.lengths[text]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Checks the vectors of texts that have one, and the numbers of the others.
    fn check(texts: &[&str], expected: &[f32], unfit: &[usize]) {
        let tiny = testing::tiny();
        let mut embedder =
            Embedder::open(&tiny.files(), Limits { tokens_max: 8, ..Limits::default() }).unwrap();
        let mut out = Vec::new();
        let found = match embedder.embed(texts, &mut out) {
            Err(EmbedError::Texts(unfit)) => unfit.iter().map(|unfit| unfit.text).collect(),
            result => result.map(|()| Vec::new()).unwrap(),
        };
        assert_eq!(found, unfit);
        let fit = out.chunks_exact(2).enumerate().filter(|(text, _)| !unfit.contains(text));
        let vectors: Vec<f32> = fit.flat_map(|(_, vector)| vector.iter().copied()).collect();
        assert_eq!(vectors.len(), expected.len());
        assert!(vectors.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{vectors:?}");
        assert_eq!(embedder.counts().texts as usize, texts.len() - unfit.len());
    }

    #[test]
    fn the_vectors_are_in_the_order_of_the_texts() {
        let half = 0.5_f32.sqrt();
        check(&["one two one", "two", "what"], &[half, -half, half, -half, half, -half], &[]);
    }

    #[test]
    fn texts_without_a_direction_or_without_tokens_are_named_and_the_others_have_vectors() {
        let half = 0.5_f32.sqrt();
        check(&["one", "zero zero", "", "zero", "two zero"], &[half, -half, half, -half], &[1, 2, 3]);
        check(&["zero"], &[], &[0]);
    }
}
