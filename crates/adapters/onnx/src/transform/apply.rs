//! Embeds the texts of a batch together.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_pipeline::meter::{Count, Tally};
use plimsoll_pipeline::{Batch, Cause, CauseClass, Fate, Transform, TransformError, TransformFactory};

use super::text_location::TextLocation;
use crate::embedder::{Counts, EmbedError, Embedder, LoadError};
use crate::settings::{Files, Limits};
use crate::weights::Weights;

/// Builds the transform of each worker; all workers share the counters and the weights of the model.
pub struct Factory {
    name: String,
    location: TextLocation,
    files: Files,
    limits: Limits,
    counters: Arc<Counters>,
    /// Loaded by the first worker.
    weights: Mutex<Option<Arc<Weights>>>,
}

#[derive(Debug, Default)]
struct Counters {
    texts: AtomicU64,
    tokens: AtomicU64,
    truncated: AtomicU64,
    batches: AtomicU64,
}

impl Factory {
    pub(crate) fn new(name: &str, location: TextLocation, files: Files, limits: Limits) -> Self {
        Factory {
            name: name.to_owned(),
            location,
            files,
            limits,
            counters: Arc::default(),
            weights: Mutex::default(),
        }
    }

    fn weights(&self) -> Result<Arc<Weights>, LoadError> {
        let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(weights) = &*weights {
            return Ok(Arc::clone(weights));
        }
        let read = Weights::read(&self.files.library, &self.files.model);
        let read = Arc::new(read.map_err(|error| LoadError::of(error, &self.files))?);
        Ok(Arc::clone(weights.insert(read)))
    }

    /// The work of all workers so far.
    pub fn counts(&self) -> Counts {
        let Counters { texts, tokens, truncated, batches } = &*self.counters;
        let [texts, tokens, truncated, batches] =
            [texts, tokens, truncated, batches].map(|counter| counter.load(Ordering::Relaxed));
        Counts { texts, tokens, truncated, batches }
    }
}

impl TransformFactory for Factory {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        let embedder =
            self.weights().and_then(|weights| Embedder::with(&self.files, self.limits, Some(&weights)));
        let embedder = embedder.map_err(|error| TransformError::Refused(error.to_string()))?;
        let (name, location, counters) =
            (self.name.clone(), self.location.clone(), Arc::clone(&self.counters));
        Ok(Box::new(Embed { name, location, embedder, counters, vectors: Vec::new() }))
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// A replay yields equal events. Their vectors differ in the last digits when a batch is cut differently, and with
    /// [`crate::Precision::Int8`] within that precision; no event is added or lost.
    fn repeatable(&self) -> bool {
        true
    }

    fn tally(&self) -> Option<Arc<dyn Tally>> {
        Some(Arc::clone(&self.counters) as Arc<dyn Tally>)
    }
}

impl Tally for Counters {
    fn of(&self, count: Count) -> u64 {
        match count {
            Count::Texts => self.texts.load(Ordering::Relaxed),
            Count::Tokens => self.tokens.load(Ordering::Relaxed),
            Count::Truncated => self.truncated.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}

struct Embed {
    name: String,
    location: TextLocation,
    embedder: Embedder,
    counters: Arc<Counters>,
    vectors: Vec<f32>,
}

impl Transform for Embed {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        let before = self.embedder.counts();
        let mut causes = vec![None; batch.events().len()];
        let (indices, texts) = self.texts(batch, &mut causes);
        self.embed(&indices, &texts, &mut causes)?;
        drop(texts);
        let vectors = self.vectors.chunks_exact(self.embedder.dimensions());
        for (index, vector) in indices.into_iter().zip(vectors).filter(|(index, _)| causes[*index].is_none())
        {
            batch.set_vector(index, vector);
        }
        batch.sift(|_, index| causes[index].take().map_or(Fate::Keep, Fate::Reject));
        self.counters.add(before, self.embedder.counts());
        Ok(())
    }
}

impl Embed {
    /// The texts of the events that have one, and the indices of these events. A tombstone has no text and
    /// passes unchanged.
    fn texts<'b>(&self, batch: &'b Batch, causes: &mut [Option<Cause>]) -> (Vec<usize>, Vec<Cow<'b, str>>) {
        let (mut indices, mut texts) = (Vec::new(), Vec::new());
        for (index, event) in batch.events().iter().enumerate() {
            match batch.payload(event).map(|payload| self.location.text(payload)) {
                None => {}
                Some(Ok(text)) => {
                    indices.push(index);
                    texts.push(text);
                }
                Some(Err(why)) => causes[index] = Some(self.invalid(why)),
            }
        }
        (indices, texts)
    }

    /// Embeds the texts; rejects a text that cannot be embedded.
    fn embed(
        &mut self,
        indices: &[usize],
        texts: &[Cow<'_, str>],
        causes: &mut [Option<Cause>],
    ) -> Result<(), TransformError> {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        match self.embedder.embed(&texts, &mut self.vectors) {
            Ok(()) => Ok(()),
            Err(EmbedError::Texts(unfit)) => {
                unfit
                    .into_iter()
                    .for_each(|unfit| causes[indices[unfit.text]] = Some(self.invalid(unfit.why)));
                Ok(())
            }
            Err(error) => Err(TransformError::Failed { name: self.name.clone(), reason: error.to_string() }),
        }
    }

    fn invalid(&self, why: String) -> Cause {
        Cause::new(self.name.clone(), CauseClass::Invalid, why)
    }
}

impl Counters {
    fn add(&self, before: Counts, after: Counts) {
        let add = |counter: &AtomicU64, before: u64, after: u64| {
            counter.fetch_add(after - before, Ordering::Relaxed);
        };
        add(&self.texts, before.texts, after.texts);
        add(&self.tokens, before.tokens, after.tokens);
        add(&self.truncated, before.truncated, after.truncated);
        add(&self.batches, before.batches, after.batches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use plimsoll_pipeline::{Partition, Record};

    #[test]
    fn the_counters_contain_tokens_and_truncated_texts() {
        let tiny = testing::tiny();
        let factory = Factory::new(
            "embed",
            TextLocation::Whole,
            tiny.files(),
            Limits { tokens_max: 8, ..Limits::default() },
        );
        let tally = factory.tally().unwrap();
        let mut batch = Batch::new(Partition::new("events", 0));
        for (offset, text) in
            ["one", "one two one two one two one two one two one two", "two"].iter().enumerate()
        {
            let payload = Some(text.as_bytes());
            batch.push(Record { offset: offset as u64, appended_ms: 1, key: None, payload });
        }
        TransformFactory::build(&factory, 0).unwrap().apply(&mut batch).unwrap();
        assert_eq!([Count::Texts, Count::Truncated, Count::Read].map(|count| tally.of(count)), [3, 1, 0]);
        assert_eq!(tally.of(Count::Tokens), 1 + 8 + 1);
    }

    #[test]
    fn a_text_without_a_vector_is_rejected_alone() {
        let tiny = testing::tiny();
        let factory = Factory::new(
            "embed",
            TextLocation::Whole,
            tiny.files(),
            Limits { tokens_max: 8, ..Limits::default() },
        );
        let mut batch = Batch::new(Partition::new("events", 0));
        for (offset, text) in ["one", "zero", "", "two", "zero zero"].iter().enumerate() {
            let payload = Some(text.as_bytes());
            batch.push(Record { offset: offset as u64, appended_ms: 1, key: None, payload });
        }
        TransformFactory::build(&factory, 0).unwrap().apply(&mut batch).unwrap();
        let kept: Vec<u64> = batch.events().iter().map(|event| event.offset).collect();
        assert_eq!(kept, [0, 3]);
        assert!(batch.events().iter().all(|event| batch.vector(event).is_some()));
        let mut rejected: Vec<u64> = batch.rejected().iter().map(|rejected| rejected.event.offset).collect();
        rejected.sort_unstable();
        assert_eq!(rejected, [1, 2, 4]);
        assert_eq!(factory.counts().texts, 2);
    }
}
