//! Finds MiniLM-L6-v2 and ONNX Runtime in the cache. Only a command of the user installs them.

mod install;
mod manifest;
mod wheel;

pub use install::{InstallError, Progress, Step, install};
pub use manifest::{Entry, Manifest, VerifyError};

use std::path::{Path, PathBuf};

use crate::convert;
use crate::settings::{Files, Model, Pooling, Precision};

/// The tokenizer's name in an installation.
const TOKENIZER: &str = "tokenizer.json";
/// The library's name.
const LIBRARY: &str = if cfg!(target_os = "macos") { "libonnxruntime.dylib" } else { "libonnxruntime.so" };

/// The model's name.
const fn model_name(precision: Precision) -> &'static str {
    match precision {
        Precision::Fp32 => "model-fp32.onnx",
        Precision::Int8 => "model-int8.onnx",
    }
}

/// An installation in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    directory: PathBuf,
    manifest: Manifest,
}

impl Installed {
    /// Opens the installation.
    ///
    /// # Errors
    /// [`VerifyError::NotInstalled`], [`VerifyError::Manifest`].
    pub fn open(cache: &Path) -> Result<Self, VerifyError> {
        let directory = directory(cache);
        Ok(Installed { manifest: Manifest::read(&directory)?, directory })
    }

    /// The directory of the installation.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The list of the installation's files.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The files for an embedder, with verified digests.
    ///
    /// # Errors
    /// [`VerifyError::Missing`], [`VerifyError::Altered`].
    pub fn files(&self, precision: Precision) -> Result<Files, VerifyError> {
        let check = |name| self.manifest.check(&self.directory, name);
        Ok(Files {
            model: check(model_name(precision))?,
            tokenizer: check(TOKENIZER)?,
            library: check(LIBRARY)?,
            pooling: Pooling::Mean,
        })
    }
}

impl Model {
    /// The files. Verifies the files of an installation against the digests of its manifest, which reads all
    /// of them (0.1 s).
    ///
    /// # Errors
    /// [`VerifyError`]: the installation is missing or altered.
    pub fn files(&self) -> Result<Files, VerifyError> {
        match self {
            Model::Installed { cache, precision } => Installed::open(cache)?.files(*precision),
            Model::Files(files) => Ok(files.clone()),
        }
    }
}

/// The directory of an installation for this version of the program.
fn directory(cache: &Path) -> PathBuf {
    cache.join(format!("minilm-l6-v2-{}", convert::VERSION))
}
