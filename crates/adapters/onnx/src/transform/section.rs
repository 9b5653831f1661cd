//! Defines the embedding keys of a pipeline's file, and resolves them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::apply::Factory;
use super::text_location::TextLocation;
use crate::embedder::LoadError;
use crate::settings::{Files, Limits, Model, Pooling, Precision};

/// The embedding section of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The format of a payload.
    #[serde(default)]
    pub payload: Payload,
    /// The field with the text, in a JSON or BSON payload; `a.b` is the field b of the field a.
    #[serde(default)]
    pub field: Option<String>,
    /// The precision of the installed model.
    #[serde(default)]
    pub precision: Precision,
    /// The pooling of `model`'s output; the installed model has a fixed pooling.
    #[serde(default)]
    pub pooling: Pooling,
    /// An ONNX file instead of the installed model; it needs `tokenizer` and `library`.
    #[serde(default)]
    pub model: Option<PathBuf>,
    /// The model's tokenizer.json.
    #[serde(default)]
    pub tokenizer: Option<PathBuf>,
    /// The library of ONNX Runtime.
    #[serde(default)]
    pub library: Option<PathBuf>,
    /// The largest number of tokens of a text; 256 by default.
    #[serde(default)]
    pub tokens_max: Option<usize>,
    /// The largest number of tokens in one batch; 512 by default. With 1 each text is computed alone: slower,
    /// and an int8 vector then depends only on its text.
    #[serde(default)]
    pub batch_tokens_max: Option<usize>,
}

/// The format of an event's payload.
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

/// The section is invalid, or the model is missing.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The field is missing or superfluous.
    #[error("JSON and BSON payloads need `field`, and text payloads must not have it")]
    Field,
    /// Some of the three files are missing.
    #[error(
        "`model`, `tokenizer` and `library` belong together: give all three, or none for the installed model"
    )]
    Files,
    /// `precision` given with a model file.
    #[error("`precision` chooses among the installed models: omit it with `model`")]
    Precision,
    /// `pooling` given without a model file.
    #[error(
        "`pooling` applies to your own model; the installed model has a fixed pooling: omit it, or use `model`"
    )]
    Pooling,
    /// A given file is missing.
    #[error(
        "{path:?} cannot be read ({source}): `model`, `tokenizer` and `library` are paths relative to the pipeline's file"
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The model cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Section {
    /// Builds a factory of that name, with the installed model in the cache at `cache` unless files are
    /// given. The digests of the installed model are verified once.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(&self, name: &str, cache: &Path) -> Result<Factory, BuildError> {
        let (location, model, limits) = (self.location()?, self.model(cache)?, self.limits()?);
        let files = model.files().map_err(LoadError::from)?;
        for path in [&files.model, &files.tokenizer, &files.library] {
            File::open(path).map_err(|source| BuildError::Missing { path: path.clone(), source })?;
        }
        Ok(Factory::new(name, location, files, limits))
    }

    /// Resolves the paths of the files from a directory.
    #[must_use]
    pub fn rooted(&self, base: &Path) -> Self {
        let rooted = |path: &Option<PathBuf>| path.as_ref().map(|path| base.join(path));
        let [model, tokenizer, library] = [&self.model, &self.tokenizer, &self.library].map(rooted);
        Self { model, tokenizer, library, ..self.clone() }
    }

    fn location(&self) -> Result<TextLocation, BuildError> {
        let path = |field: &String| field.split('.').map(str::to_owned).collect();
        match (self.payload, &self.field) {
            (Payload::Text, None) => Ok(TextLocation::Whole),
            (Payload::Json, Some(field)) => Ok(TextLocation::Json(path(field))),
            (Payload::Bson, Some(field)) => Ok(TextLocation::Bson(path(field))),
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
