//! Compares a model from another exporter with the ONNX project's reference evaluator
//! (`tests/foreign/make.py`).

use std::path::Path;

use plimsoll_onnx::transform::{Payload, Section};
use plimsoll_onnx::{Embedder, Files, Limits, Pooling, Precision};
use plimsoll_pipeline::{Batch, Partition, Record, TransformFactory};
use serde_json::Value;

use crate::installed::{cache, embed, model};

const VECTORS: &str = include_str!("../foreign/vectors.json");
/// The number of positions that the model supports.
const TOKENS_MAX: usize = 12;
const LIMITS: Limits = Limits { tokens_max: TOKENS_MAX, text_bytes_max: 1 << 16, batch_tokens_max: 512 };

fn files(pooling: Pooling) -> Files {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    let library = model(Precision::Int8).files().unwrap().library;
    Files { model: at.join("model.onnx"), tokenizer: at.join("tokenizer.json"), library, pooling }
}

fn rows() -> Vec<Value> {
    serde_json::from_str(VECTORS).unwrap()
}

fn texts(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["text"].as_str().unwrap()).collect()
}

/// Checks the vectors against those of the rows under this name.
fn check<'v>(rows: &[Value], name: &str, vectors: impl Iterator<Item = &'v [f32]>) {
    let mut seen = 0;
    for (row, vector) in rows.iter().zip(vectors) {
        let expected: Vec<f64> =
            row[name].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
        assert_eq!(vector.len(), expected.len());
        let apart = vector.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs());
        assert!(apart.fold(0.0, f64::max) < 1e-5, "{name} of {}: {vector:?}", row["text"]);
        seen += 1;
    }
    assert_eq!(seen, rows.len());
}

#[test]
fn a_model_of_another_exporter_gives_its_vectors_in_every_pooling() {
    let rows = rows();
    let tokens: u64 = rows.iter().map(|row| row["tokens"].as_u64().unwrap()).sum();
    for (pooling, name) in [(Pooling::Mean, "mean"), (Pooling::Cls, "cls"), (Pooling::Own, "own")] {
        let mut embedder = Embedder::open(&files(pooling), LIMITS).unwrap();
        let vectors = embed(&mut embedder, &texts(&rows));
        check(&rows, name, vectors.chunks_exact(embedder.dimensions()));
        let counts = embedder.counts();
        assert_eq!(
            (counts.tokens, counts.truncated),
            (tokens, 1),
            "its own padding and truncation do not count"
        );
        assert!((counts.batches as usize) < rows.len(), "texts of one length share a batch");
    }
}

#[test]
fn a_pipeline_uses_a_model_of_the_user() {
    let Files { model, tokenizer, library, .. } = files(Pooling::Cls);
    let (model, tokenizer, library) = (Some(model), Some(tokenizer), Some(library));
    let section = Section { model, tokenizer, library, pooling: Pooling::Cls, ..Section::default() };
    let section = Section { payload: Payload::Text, tokens_max: Some(TOKENS_MAX), ..section };
    let (rows, mut batch) = (rows(), Batch::new(Partition::new("events", 0)));
    for (offset, text) in (0..).zip(texts(&rows)) {
        batch.push(Record { offset, appended_ms: 1, key: None, payload: Some(text.as_bytes()) });
    }
    let factory = section.build("embed", &cache()).unwrap();
    TransformFactory::build(&factory, 0).unwrap().apply(&mut batch).unwrap();
    check(&rows, "cls", batch.events().iter().map(|event| batch.vector(event).unwrap()));
}

#[test]
fn a_model_that_does_not_fit_its_settings_is_refused() {
    let refused = |files: &Files, limits, expected: &str| {
        let error = Embedder::open(files, limits).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let longer = Limits { tokens_max: TOKENS_MAX + 1, ..LIMITS };
    refused(&files(Pooling::Mean), longer, "it does not accept 13 tokens");
    let installed = Files { pooling: Pooling::Own, ..model(Precision::Int8).files().unwrap() };
    refused(&installed, LIMITS, "it has no output of floats [texts, dimensions]");
    let section = Section { pooling: Pooling::Own, ..Section::default() };
    let error = section.build("embed", &cache()).err().unwrap().to_string();
    assert!(error.contains("or use `model`"), "{error}");
}
