//! The texts.

/// Texts that are embedded together, as a pipeline hands them over.
#[derive(Clone)]
pub(crate) struct Workload {
    pub(crate) name: String,
    texts: Vec<String>,
}

/// How many texts a workload of one length has.
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

    /// Leaves all texts out but the first.
    pub(crate) fn keep(&mut self, texts: usize) {
        self.texts.truncate(texts);
    }

    /// How many tokens its texts have in the mean: without that a rate says nothing.
    pub(crate) fn tell(&mut self, tokens: f64) {
        self.name = format!("{}, {tokens:.1} tokens in the mean", self.name);
    }
}

/// Texts of exactly 16, 32 and 128 tokens, the two special ones among them, and real sentences.
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
