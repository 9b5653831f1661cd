//! Embeds the texts of a batch together.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_pipeline::meter::{Count, Tally};
use plimsoll_pipeline::{Batch, Cause, CauseClass, Fate, Transform, TransformError, TransformFactory};

use super::take::Take;
use crate::embedder::{Counts, EmbedError, Embedder, LoadError};
use crate::settings::{Files, Limits};
use crate::weights::Weights;

/// Makes the transform of each worker; all count together, and hold the weights of the model together.
pub struct Factory {
    name: String,
    take: Take,
    files: Files,
    limits: Limits,
    counters: Arc<Counters>,
    /// Read with the first worker.
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
    pub(crate) fn new(name: &str, take: Take, files: Files, limits: Limits) -> Self {
        Factory {
            name: name.to_owned(),
            take,
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

    /// What all workers embedded so far.
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
        let (name, take, counters) = (self.name.clone(), self.take.clone(), Arc::clone(&self.counters));
        Ok(Box::new(Embed { name, take, embedder, counters, vectors: Vec::new() }))
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// The same events come out. Their vectors differ in the last digits when a batch is cut otherwise, and with
    /// [`crate::Precision::Int8`] by as much as that precision is wrong at all; no event is added or lost by that.
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
    take: Take,
    embedder: Embedder,
    counters: Arc<Counters>,
    vectors: Vec<f32>,
}

impl Transform for Embed {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        let before = self.embedder.counts();
        let mut fates = vec![None; batch.events().len()];
        let (indices, texts) = self.texts(batch, &mut fates);
        self.embed(&indices, &texts, &mut fates)?;
        drop(texts);
        let vectors = self.vectors.chunks_exact(self.embedder.dimensions());
        for (index, vector) in indices.into_iter().zip(vectors).filter(|(index, _)| fates[*index].is_none()) {
            batch.set_vector(index, vector);
        }
        batch.sift(|_, index| fates[index].take().map_or(Fate::Keep, Fate::Reject));
        self.counters.add(before, self.embedder.counts());
        Ok(())
    }
}

impl Embed {
    /// The texts of the events that have one, and the indices of these events. A tombstone has none and goes on as it is.
    fn texts<'b>(&self, batch: &'b Batch, fates: &mut [Option<Cause>]) -> (Vec<usize>, Vec<Cow<'b, str>>) {
        let (mut indices, mut texts) = (Vec::new(), Vec::new());
        for (index, event) in batch.events().iter().enumerate() {
            match batch.payload(event).map(|payload| self.take.text(payload)) {
                None => {}
                Some(Ok(text)) => {
                    indices.push(index);
                    texts.push(text);
                }
                Some(Err(why)) => fates[index] = Some(self.invalid(why)),
            }
        }
        (indices, texts)
    }

    /// Embeds the texts; one that cannot be is rejected.
    fn embed(
        &mut self,
        indices: &[usize],
        texts: &[Cow<'_, str>],
        fates: &mut [Option<Cause>],
    ) -> Result<(), TransformError> {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        match self.embedder.embed(&texts, &mut self.vectors) {
            Ok(()) => Ok(()),
            Err(EmbedError::Texts(unfit)) => {
                unfit
                    .into_iter()
                    .for_each(|unfit| fates[indices[unfit.text]] = Some(self.invalid(unfit.why)));
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
    fn the_pipeline_is_told_of_tokens_and_of_texts_that_were_cut() {
        let tiny = testing::tiny();
        let factory =
            Factory::new("embed", Take::Whole, tiny.files(), Limits { tokens_max: 8, ..Limits::default() });
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
    fn one_text_without_a_vector_is_condemned_alone() {
        let tiny = testing::tiny();
        let factory =
            Factory::new("embed", Take::Whole, tiny.files(), Limits { tokens_max: 8, ..Limits::default() });
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
