//! Compares the vectors with those of `tests/reference/make.py`, which shares no code with the crate.

use std::thread;

use plimsoll_onnx::{Limits, Precision, Quality, cosine};
use serde_json::Value;

use crate::installed::{embed, embedder};

const VECTORS: &str = include_str!("../reference/vectors.json");
/// The sentences of this project's documents that the benchmarks embed.
const SENTENCES: &str = include_str!("../../benches/embed/sentences.txt");
/// The largest accepted distance of an exact vector.
const DISTANCE_MAX: f64 = 1e-3;

struct Row {
    text: String,
    tokens: u64,
    vector: Vec<f32>,
}

fn rows() -> Vec<Row> {
    let rows: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    let row = |row: &Value| Row {
        text: row["text"].as_str().unwrap().to_owned(),
        tokens: row["tokens"].as_u64().unwrap(),
        vector: row["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect(),
    };
    rows.iter().map(row).collect()
}

/// The rows, and the installed model's vectors for them.
fn embedded(precision: Precision) -> (Vec<Row>, Vec<f32>) {
    let rows = rows();
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    let vectors = embed(&mut embedder(precision, Limits::default()), &texts);
    (rows, vectors)
}

#[test]
fn fp32_gives_the_vectors_of_an_independent_implementation() {
    let (rows, vectors) = embedded(Precision::Fp32);
    for (row, vector) in rows.iter().zip(vectors.chunks_exact(384)) {
        let distance = 1.0 - cosine(&row.vector, vector);
        assert!(distance < DISTANCE_MAX, "{distance} for {:?}", row.text);
        let length: f32 = vector.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5, "the length of {:?} is {length}", row.text);
    }
}

#[test]
fn int8_is_near_and_its_quality_is_known() {
    let (rows, vectors) = embedded(Precision::Int8);
    let exact: Vec<f32> = rows.iter().flat_map(|row| row.vector.iter().copied()).collect();
    let quality = Quality::between(&exact, &vectors, 384).unwrap();
    println!("{quality}");
    assert!(quality.cosine_mean > 0.98 && quality.cosine_min > 0.95, "{quality}");
}

#[test]
fn int8_finds_the_same_nearest_text_as_fp32_for_most_sentences() {
    let texts: Vec<&str> = SENTENCES.lines().collect();
    let [exact, small] = [Precision::Fp32, Precision::Int8]
        .map(|precision| embed(&mut embedder(precision, Limits::default()), &texts));
    let quality = Quality::between(&exact, &small, 384).unwrap();
    println!("{quality}");
    assert_eq!(quality.texts, texts.len());
    assert!(quality.cosine_mean > 0.98 && quality.top1_agreement >= 0.8, "{quality}");
}

#[test]
fn the_tokens_are_those_of_an_independent_implementation() {
    let mut embedder = embedder(Precision::Fp32, Limits::default());
    for row in rows() {
        let before = embedder.counts().tokens;
        embed(&mut embedder, &[&row.text]);
        assert_eq!(embedder.counts().tokens - before, row.tokens, "{:?}", row.text);
    }
}

#[test]
fn a_vector_does_not_depend_on_its_neighbours_or_its_place() {
    let (rows, together) = embedded(Precision::Fp32);
    let mut embedder = embedder(Precision::Fp32, Limits { batch_tokens_max: 1, ..Limits::default() });
    for (row, vector) in rows.iter().zip(together.chunks_exact(384)) {
        let alone = embed(&mut embedder, &[&row.text]);
        assert!(1.0 - cosine(&alone, vector) < 1e-6, "{:?}", row.text);
    }
}

#[test]
fn an_int8_vector_that_is_computed_alone_depends_on_nothing_else() {
    // Words of one token each, so that all texts have one length and may share a batch.
    let texts = ["north south red green", "river mountain light energy", "the load line of"];
    let apart =
        |embedder: &mut _| texts.iter().flat_map(|&text| embed(embedder, &[text])).collect::<Vec<_>>();
    let mut alone = embedder(Precision::Int8, Limits { batch_tokens_max: 1, ..Limits::default() });
    let expected = apart(&mut alone);
    assert_eq!(embed(&mut alone, &texts), expected);
    let mut together = embedder(Precision::Int8, Limits::default());
    assert_ne!(embed(&mut together, &texts), expected, "in a batch they share the scale of a product");
    assert_eq!(apart(&mut together), expected);
}

#[test]
fn every_thread_has_an_embedder_of_its_own() {
    let run = || embedded(Precision::Int8).1;
    let threads: Vec<_> = (0..2).map(|_| thread::spawn(run)).collect();
    let vectors: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(vectors[0], vectors[1]);
}

#[test]
fn work_is_counted() {
    let mut embedder = embedder(Precision::Int8, Limits { tokens_max: 8, ..Limits::default() });
    embed(&mut embedder, &["one two", "three four", "one two three four five six seven", ""]);
    let counts = embedder.counts();
    assert_eq!((counts.texts, counts.tokens, counts.truncated, counts.batches), (4, 4 + 4 + 8 + 2, 1, 3));
    embed(&mut embedder, &[]);
    assert_eq!(embedder.counts(), counts, "an empty list adds no work");
}
