//! Embeds texts with candle on one thread. Each line of standard input is a request in JSON, as for the
//! Python side of the embedding benchmark.
//!
//! The model is candle's own, in fp32. Texts of one length share a batch of the size that is fastest for
//! them.

mod embed;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};

use embed::Embedder;

/// Any failure ends the program with its message.
type Failure = Box<dyn Error + Send + Sync>;

/// The batch sizes to compare; the fastest is used.
const SIZES: [usize; 3] = [4, 8, 32];

/// The fastest size of each list of texts.
type Sizes = BTreeMap<Vec<String>, usize>;

/// A request.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    texts: Vec<String>,
    #[serde(default)]
    seconds: f64,
    /// Whether to return vectors instead of measuring.
    #[serde(default)]
    vectors: bool,
    /// Whether to return only the versions.
    #[serde(default)]
    versions: bool,
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let (Some(weights), Some(tokenizer)) = (words.next(), words.next()) else {
        return Err("name the weights (model.safetensors) and the tokenizer (tokenizer.json)".into());
    };
    let embedder = Embedder::load(weights.as_ref(), tokenizer.as_ref())?;
    let mut sizes = Sizes::new();
    for line in stdin().lock().lines() {
        let answer = answer(&embedder, &mut sizes, &serde_json::from_str(&line?)?)?;
        println!("{answer}");
        stdout().flush()?;
    }
    Ok(())
}

fn answer(embedder: &Embedder, sizes: &mut Sizes, asked: &Asked) -> Result<Value, Failure> {
    if asked.versions {
        return Ok(json!({"versions": "candle 0.11.1"}));
    }
    if asked.vectors {
        return Ok(json!({"vectors": embedder.embed(&asked.texts, SIZES[0])?}));
    }
    let size = match sizes.get(&asked.texts) {
        Some(size) => *size,
        None => fastest(embedder, &asked.texts)?,
    };
    sizes.insert(asked.texts.clone(), size);
    embedder.embed(&asked.texts, size)?;
    let (start, used, mut sentences) = (now(ClockId::Monotonic), now(ClockId::ProcessCPUTime), 0);
    loop {
        embedder.embed(&asked.texts, size)?;
        sentences += asked.texts.len();
        let seconds = now(ClockId::Monotonic) - start;
        if seconds >= asked.seconds {
            let cpu_seconds = now(ClockId::ProcessCPUTime) - used;
            return Ok(json!({"sentences": sentences, "seconds": seconds, "cpu_seconds": cpu_seconds}));
        }
    }
}

/// The batch size with the least CPU time for these texts; the first attempt warms up and does not count.
fn fastest(embedder: &Embedder, texts: &[String]) -> Result<usize, Failure> {
    embedder.embed(texts, SIZES[0])?;
    let mut best = (f64::INFINITY, SIZES[0]);
    for size in SIZES {
        let begun = now(ClockId::ProcessCPUTime);
        embedder.embed(texts, size)?;
        let took = now(ClockId::ProcessCPUTime) - begun;
        if took < best.0 {
            best = (took, size);
        }
    }
    Ok(best.1)
}

/// Reads a clock, in seconds.
fn now(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
