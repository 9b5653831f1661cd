//! Finds the installation that `cargo xtask setup` made.

use std::path::PathBuf;

use plimsoll_install::Cache;
use plimsoll_onnx::{Embedder, Limits, Model, Precision, Settings};

/// The cache of the tests.
pub(crate) fn cache() -> PathBuf {
    Cache::locate().expect("HOME is set").root().to_owned()
}

pub(crate) fn model(precision: Precision) -> Model {
    Model::Installed { cache: cache(), precision }
}

/// An embedder of the installed model.
pub(crate) fn embedder(precision: Precision, limits: Limits) -> Embedder {
    let settings = Settings { model: model(precision), limits };
    Embedder::load(&settings).unwrap_or_else(|error| panic!("{error} (the tests need `cargo xtask setup`)"))
}

/// The vectors of some texts.
pub(crate) fn embed(embedder: &mut Embedder, texts: &[&str]) -> Vec<f32> {
    let mut out = vec![9.0; 3];
    embedder.embed(texts, &mut out).unwrap();
    assert_eq!(out.len(), texts.len() * embedder.dimensions());
    out
}
