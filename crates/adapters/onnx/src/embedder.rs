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

/// A model and its tokenizer, on one thread: every worker has its own.
pub struct Embedder {
    texts: Texts,
    network: Network,
    limits: Limits,
    counts: Counts,
}

/// What was embedded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Texts that got a vector.
    pub texts: u64,
    /// The tokens that were computed, with the special ones.
    pub tokens: u64,
    /// Texts of which the end was left out.
    pub truncated: u64,
    /// Runs of the model.
    pub batches: u64,
}

/// An embedder could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The installed model is not there, or not as it was.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The limits leave nothing.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// ONNX Runtime cannot be used.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The model cannot be used.
    #[error(
        "{path:?} is no model that can be used ({why}): give an ONNX file that makes a vector for each token (or for each text, \
         with `pooling: own`), or run `plimsoll model install`"
    )]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl LoadError {
    /// What is wrong with one of the files.
    pub(crate) fn of(error: NetworkError, files: &Files) -> Self {
        match error {
            NetworkError::Runtime(error) => LoadError::Runtime(error),
            NetworkError::Model(why) => LoadError::Model { path: files.model.clone(), why },
        }
    }
}

/// Texts could not be embedded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// Some texts have no vector, in ascending order; all others have theirs.
    #[error("{} of the texts have no vector, first {}: leave them out", .0.len(), first(.0))]
    Texts(Vec<Unfit>),
    /// The model failed; no text has a vector.
    #[error("the model failed ({0}): does the tokenizer belong to it?")]
    Run(String),
}

/// A text that has no vector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text {text}: {why}")]
pub struct Unfit {
    /// Its number among the texts.
    pub text: usize,
    /// Why.
    pub why: String,
}

fn first(unfit: &[Unfit]) -> String {
    unfit.first().map(Unfit::to_string).unwrap_or_default()
}

/// Texts as tokens, one after the other.
#[derive(Default)]
struct Tokens {
    all: Vec<i64>,
    lengths: Vec<usize>,
    starts: Vec<usize>,
    truncated: u64,
    unfit: Vec<Unfit>,
}

impl Embedder {
    /// Loads a model; an installed one is held to its digests first.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(settings: &Settings) -> Result<Self, LoadError> {
        settings.limits.check()?;
        Embedder::open(&settings.model.files()?, settings.limits)
    }

    /// Loads a model from files, as they are. It runs once, so that what does not fit together is known now.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn open(files: &Files, limits: Limits) -> Result<Self, LoadError> {
        Embedder::with(files, limits, None)
    }

    /// The same with weights of the same model that others use too.
    pub(crate) fn with(files: &Files, limits: Limits, weights: Option<&Weights>) -> Result<Self, LoadError> {
        limits.check()?;
        let texts = Texts::load(&files.tokenizer, limits)?;
        let (token_max, tokens_max) = (texts.token_max(), limits.tokens_max);
        let network = Network::load(files, token_max, tokens_max, weights);
        let network = network.map_err(|error| LoadError::of(error, files))?;
        Ok(Embedder { texts, network, limits, counts: Counts::default() })
    }

    /// How many numbers a vector has.
    pub fn dimensions(&self) -> usize {
        self.network.dimensions()
    }

    /// What was embedded so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Makes a vector of each text, of its tokens' vectors as [`crate::Pooling`] says, scaled to length one. `out` then holds
    /// `texts.len() × dimensions()` numbers, in the order of the texts. An empty text has the vector of its special
    /// tokens; of a long one the end is left out, and that is counted.
    ///
    /// # Errors
    /// [`EmbedError::Texts`]: some texts have no tokens, or a vector without a direction. `out` holds those of the others, and
    /// for these texts numbers that mean nothing. [`EmbedError::Run`]: `out` means nothing.
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
                    tokens.unfit.push(Unfit { text, why: "the model gives it no direction".into() });
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
                Ok(_) if tokens.all.len() == start => Some("the tokenizer gives it no tokens".into()),
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

    /// The vectors of those that have one, and the numbers of the others.
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
