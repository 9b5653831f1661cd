//! Defines the embedding keys of a pipeline's file, and resolves them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::apply::Factory;
use super::take::Take;
use crate::embedder::LoadError;
use crate::settings::{Files, Limits, Model, Pooling, Precision};

/// How a pipeline asks for vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// What a payload is.
    #[serde(default)]
    pub payload: Payload,
    /// The field that holds the text, in a payload of fields; `a.b` is the field b of the field a.
    #[serde(default)]
    pub field: Option<String>,
    /// How exact the installed model is.
    #[serde(default)]
    pub precision: Precision,
    /// How the vector of a text is made of what the model of `model` gives; that of the installed one is known.
    #[serde(default)]
    pub pooling: Pooling,
    /// An ONNX file instead of the installed model; then the next two are needed.
    #[serde(default)]
    pub model: Option<PathBuf>,
    /// The tokenizer.json that belongs to it.
    #[serde(default)]
    pub tokenizer: Option<PathBuf>,
    /// The library of ONNX Runtime.
    #[serde(default)]
    pub library: Option<PathBuf>,
    /// The most tokens of a text, 256 unless said.
    #[serde(default)]
    pub tokens_max: Option<usize>,
    /// The most tokens that are computed at once, 512 unless said. With 1 each text is computed alone: slower, and an int8 vector
    /// depends on nothing else.
    #[serde(default)]
    pub batch_tokens_max: Option<usize>,
}

/// What the payload of an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// The text itself, in UTF-8.
    #[default]
    Text,
    /// A JSON object with the text in a field.
    Json,
    /// A BSON document with the text in a field.
    Bson,
}

/// The section cannot be meant, or the model is not there.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A field is needed, or makes no sense.
    #[error(
        "a payload that is text has no fields, one of JSON or BSON needs `field`: say which holds the text"
    )]
    Field,
    /// Not all three files are given.
    #[error(
        "`model`, `tokenizer` and `library` belong together: give all three, or none for the installed model"
    )]
    Files,
    /// A precision for a file.
    #[error("`precision` chooses among the installed models: leave it out beside `model`")]
    Precision,
    /// A pooling without a file.
    #[error(
        "`pooling` is for a model of yours, and that of the installed one is known: leave it out, or say `model`"
    )]
    Pooling,
    /// A file that was given is not there.
    #[error(
        "{path:?} cannot be read ({source}): `model`, `tokenizer` and `library` are files, from the folder of the pipeline's own"
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The model cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Section {
    /// A factory of that name, with the installed model in the cache at `cache` unless files are given. The installed
    /// model is held to its digests, once.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(&self, name: &str, cache: &Path) -> Result<Factory, BuildError> {
        let (take, model, limits) = (self.take()?, self.model(cache)?, self.limits()?);
        let files = model.files().map_err(LoadError::from)?;
        for path in [&files.model, &files.tokenizer, &files.library] {
            File::open(path).map_err(|source| BuildError::Missing { path: path.clone(), source })?;
        }
        Ok(Factory::new(name, take, files, limits))
    }

    /// The same with its files found from a folder.
    #[must_use]
    pub fn rooted(&self, base: &Path) -> Self {
        let rooted = |path: &Option<PathBuf>| path.as_ref().map(|path| base.join(path));
        let [model, tokenizer, library] = [&self.model, &self.tokenizer, &self.library].map(rooted);
        Self { model, tokenizer, library, ..self.clone() }
    }

    fn take(&self) -> Result<Take, BuildError> {
        let path = |field: &String| field.split('.').map(str::to_owned).collect();
        match (self.payload, &self.field) {
            (Payload::Text, None) => Ok(Take::Whole),
            (Payload::Json, Some(field)) => Ok(Take::Json(path(field))),
            (Payload::Bson, Some(field)) => Ok(Take::Bson(path(field))),
            (Payload::Text, Some(_)) | (Payload::Json | Payload::Bson, None) => Err(BuildError::Field),
        }
    }

    fn model(&self, cache: &Path) -> Result<Model, BuildError> {
        match (&self.model, &self.tokenizer, &self.library) {
            (None, None, None) if self.pooling != Pooling::default() => Err(BuildError::Pooling),
            (None, None, None) => Ok(Model::Installed { cache: cache.to_owned(), precision: self.precision }),
            (Some(_), ..) if self.precision != Precision::default() => Err(BuildError::Precision),
            (Some(model), Some(tokenizer), Some(library)) => {
                let (model, tokenizer, library) = (model.clone(), tokenizer.clone(), library.clone());
                Ok(Model::Files(Files { model, tokenizer, library, pooling: self.pooling }))
            }
            _ => Err(BuildError::Files),
        }
    }

    fn limits(&self) -> Result<Limits, LoadError> {
        let usual = Limits::default();
        let limits = Limits {
            tokens_max: self.tokens_max.unwrap_or(usual.tokens_max),
            batch_tokens_max: self.batch_tokens_max.unwrap_or(usual.batch_tokens_max),
            ..usual
        };
        limits.check()?;
        Ok(limits)
    }
}
