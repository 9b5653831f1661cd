//! Provides a model of one node with a tokenizer of a few words, and the files that `cargo xtask setup`
//! installed, for tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use plimsoll_install::Cache;
use tempfile::TempDir;

use crate::convert::testing::{ModelSpec, model};
use crate::settings::{Files, Model, Pooling, Precision};

pub(crate) static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| installed().library);

/// The files of the installed int8 model.
pub(crate) fn installed() -> Files {
    let cache = Cache::locate().unwrap().root().to_owned();
    Model::Installed { cache, precision: Precision::Int8 }.files().unwrap()
}

/// A tokenizer without special tokens. The model's vector of the word `zero` is zero.
const TOKENIZER: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"zero": 0, "one": 1, "two": 2, "unknown": 9}, "unk_token": "unknown"}
}"#;

pub(crate) struct Tiny(TempDir);

pub(crate) fn tiny() -> Tiny {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("model.onnx"), model(ModelSpec::GOOD)).unwrap();
    fs::write(directory.path().join("tokenizer.json"), TOKENIZER).unwrap();
    Tiny(directory)
}

impl Tiny {
    pub(crate) fn files(&self) -> Files {
        let [model, tokenizer] = ["model.onnx", "tokenizer.json"].map(|name| self.0.path().join(name));
        Files { model, tokenizer, library: LIBRARY.clone(), pooling: Pooling::Mean }
    }
}
