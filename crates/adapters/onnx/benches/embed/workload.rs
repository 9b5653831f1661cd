//! Makes the texts of the benchmark.

/// Texts that are embedded together, as a pipeline submits them.
#[derive(Clone)]
pub(crate) struct Workload {
    pub(crate) name: String,
    texts: Vec<String>,
}

/// The number of texts in a workload of one length.
const TEXTS: usize = 64;
/// Words that are one token each.
const WORDS: &[&str] = &[
    "the", "load", "line", "of", "a", "ship", "is", "where", "water", "may", "reach", "rate", "time",
    "system", "under", "one", "two", "three", "four", "five", "north", "south", "red", "green", "blue",
    "river", "mountain", "light", "energy", "field", "sample", "data",
];
/// Sentences of this project's documents, one a line.
const SENTENCES: &str = include_str!("sentences.txt");

impl Workload {
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }

    /// Keeps only the first texts.
    pub(crate) fn keep(&mut self, texts: usize) {
        self.texts.truncate(texts);
    }

    /// Adds the mean number of tokens to the name: a rate means nothing without it.
    pub(crate) fn add_token_count(&mut self, tokens: f64) {
        self.name = format!("{}, {tokens:.1} tokens on average", self.name);
    }
}

/// Texts of exactly 16, 32 and 128 tokens, special ones included, and real sentences.
pub(crate) fn all() -> Vec<Workload> {
    let mut all = [16, 32, 128].map(of_tokens).to_vec();
    let texts = SENTENCES.lines().map(str::to_owned).collect();
    all.push(Workload { name: "sentences".into(), texts });
    all
}

fn of_tokens(tokens: usize) -> Workload {
    let mut seed = 7_u64;
    let mut word = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(seed >> 33) as usize % WORDS.len()]
    };
    let mut text = || (0..tokens - 2).map(|_| word()).collect::<Vec<_>>().join(" ");
    Workload { name: format!("{tokens} tokens"), texts: (0..TEXTS).map(|_| text()).collect() }
}
