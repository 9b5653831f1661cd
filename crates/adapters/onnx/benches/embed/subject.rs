//! Lists the subjects of the benchmark: an embedder with a model file.

use std::fmt;

use plimsoll_onnx::{Embedder, Files, Limits, Model, Precision};

use crate::Failure;
use crate::arguments::Arguments;
use crate::ours;
use crate::peer::{self, Peer};
use crate::table::Rate;
use crate::workload::Workload;

/// The embedder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Embedding {
    Python,
    Candle,
    Plimsoll,
    /// Plimsoll with every text in its own batch.
    Alone,
}

/// The model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    /// The int8 file of a Python package.
    PublishedInt8,
    /// The int8 file that Plimsoll converts.
    OurInt8,
    /// The fp32 file that Plimsoll converts.
    OurFp32,
    /// The trained weights, unchanged.
    Weights,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) embedding: Embedding,
    pub(crate) file: File,
}

/// A row and its embedder.
pub(crate) struct Subject {
    pub(crate) label: Label,
    by: By,
}

enum By {
    Ours(Box<Embedder>),
    Other(Peer),
}

/// All subjects. The first is the baseline: the published int8 model in Python. The last is Plimsoll's exact
/// model.
pub(crate) fn all(arguments: &Arguments) -> Result<Vec<Subject>, Failure> {
    let installed = |precision| Model::Installed { cache: arguments.cache.clone(), precision }.files();
    let (exact, fast) = (installed(Precision::Fp32)?, installed(Precision::Int8)?);
    let mut subjects = Vec::new();
    if let Some(python) = &arguments.python {
        let published = Files { model: peer::published(python)?, ..fast.clone() };
        for (file, files) in
            [(File::PublishedInt8, &published), (File::OurInt8, &fast), (File::OurFp32, &exact)]
        {
            subjects.push(Subject::other(Embedding::Python, file, Peer::python(python, files)?));
        }
        if let Some(candle) = &arguments.candle {
            let peer = Peer::candle(candle, &peer::weights(python)?, &exact.tokenizer)?;
            subjects.push(Subject::other(Embedding::Candle, File::Weights, peer));
        }
        subjects.push(Subject::ours(Embedding::Plimsoll, File::PublishedInt8, &published)?);
    }
    for (file, files) in [(File::OurInt8, &fast), (File::OurFp32, &exact)] {
        subjects.push(Subject::ours(Embedding::Plimsoll, file, files)?);
        subjects.push(Subject::ours(Embedding::Alone, file, files)?);
    }
    Ok(subjects)
}

impl Subject {
    fn other(embedding: Embedding, file: File, peer: Peer) -> Self {
        Self { label: Label { embedding, file }, by: By::Other(peer) }
    }

    /// Opens Plimsoll's embedder with limits that let texts of one length share a batch, or not.
    fn ours(embedding: Embedding, file: File, files: &Files) -> Result<Self, Failure> {
        let together = Limits::default();
        let limits =
            if embedding == Embedding::Alone { Limits { batch_tokens_max: 1, ..together } } else { together };
        Ok(Self { label: Label { embedding, file }, by: By::Ours(Box::new(Embedder::open(files, limits)?)) })
    }

    pub(crate) fn measure(&mut self, workload: &Workload, seconds: f64) -> Result<Rate, Failure> {
        match &mut self.by {
            By::Ours(embedder) => ours::measure(embedder, workload, seconds),
            By::Other(peer) => peer.measure(workload, seconds),
        }
    }

    /// The vectors of the texts.
    pub(crate) fn embed(&mut self, workload: &Workload) -> Result<Vec<f32>, Failure> {
        match &mut self.by {
            By::Ours(embedder) => {
                let mut vectors = Vec::new();
                embedder.embed(&workload.texts(), &mut vectors)?;
                Ok(vectors)
            }
            By::Other(peer) => peer.embed(workload),
        }
    }

    /// The mean number of tokens of a text, special ones included; not a number for peers, which do not
    /// report it.
    pub(crate) fn tokens(&mut self, workload: &Workload) -> Result<f64, Failure> {
        let By::Ours(embedder) = &mut self.by else { return Ok(f64::NAN) };
        let before = embedder.counts();
        embedder.embed(&workload.texts(), &mut Vec::new())?;
        let after = embedder.counts();
        Ok((after.tokens - before.tokens) as f64 / (after.texts - before.texts).max(1) as f64)
    }

    /// The names and versions of a peer's parts.
    pub(crate) fn versions(&mut self) -> Result<Option<String>, Failure> {
        match &mut self.by {
            By::Ours(_) => Ok(None),
            By::Other(peer) => peer.versions().map(Some),
        }
    }
}

impl File {
    /// Whether it computes in 8 bits.
    pub(crate) const fn is_int8(self) -> bool {
        matches!(self, Self::PublishedInt8 | Self::OurInt8)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = match self.file {
            File::PublishedInt8 => "published int8",
            File::OurInt8 => "our int8",
            File::OurFp32 => "our fp32",
            File::Weights => "fp32 weights",
        };
        let words = match self.embedding {
            Embedding::Python => format!("Python, {file}"),
            Embedding::Candle => format!("candle, {file}"),
            Embedding::Plimsoll => format!("Plimsoll, {file}"),
            Embedding::Alone => format!("Plimsoll, {file} alone"),
        };
        // Pads the text to the column's width.
        f.pad(&words)
    }
}
