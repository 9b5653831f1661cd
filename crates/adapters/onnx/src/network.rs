//! Runs one model in ONNX Runtime: from token numbers to one vector per text.

use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::{Outlet, TensorElementType, ValueType};

use crate::inputs::{Input, Numbers};
use crate::runtime::{self, NetworkError, check_size, text};
use crate::settings::{Files, Pooling};
use crate::weights::Weights;

/// Optimisations of ONNX Runtime that slow a model down on a CPU: their fused operators are not vectorised.
const UNWANTED: &str = "SkipLayerNormFusion;BiasGeluFusion";

/// A model, ready to run on the calling thread.
pub(crate) struct Network {
    session: Session,
    inputs: Vec<Input>,
    output: usize,
    pooling: Pooling,
    dimensions: usize,
    numbers: Numbers,
}

impl Network {
    /// Loads an ONNX file, and runs it once with the largest number of tokens, each with the tokenizer's
    /// highest number. Networks of one file share `weights`, if given, instead of loading them again.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub(crate) fn load(
        files: &Files,
        token_max: i64,
        tokens_max: usize,
        weights: Option<&Weights>,
    ) -> Result<Self, NetworkError> {
        let Files { library, model, pooling, .. } = files;
        check_size(model)?;
        let environment = runtime::environment(library).map_err(NetworkError::Runtime)?;
        let build = || -> Result<Session, String> {
            let builder = Session::builder(&environment).map_err(text)?;
            let builder = builder.with_intra_threads(1).map_err(text)?.with_inter_threads(1).map_err(text)?;
            let builder = builder.with_optimization_level(GraphOptimizationLevel::All).map_err(text)?;
            // Every length has its own shapes, and each would keep its memory plan for ever.
            let builder = builder.with_memory_pattern(false).map_err(text)?;
            let builder = builder.with_disabled_optimizers(UNWANTED).map_err(text)?;
            let mut builder = match weights {
                Some(weights) => weights.give(builder)?,
                None => builder,
            };
            builder.commit_from_file(model).map_err(text)
        };
        let session = build().map_err(NetworkError::Model)?;
        Network::of(session, *pooling, token_max, tokens_max).map_err(NetworkError::Model)
    }

    fn of(session: Session, pooling: Pooling, token_max: i64, tokens_max: usize) -> Result<Self, String> {
        let inputs = session.inputs().iter().map(Input::of).collect::<Result<Vec<_>, _>>()?;
        if !inputs.iter().any(|input| input.is_of_tokens()) {
            return Err("it has no input input_ids".into());
        }
        let output = session.outputs().iter().position(|outlet| is_floats(outlet, axes(pooling).len()));
        let output =
            output.ok_or_else(|| format!("it has no output of floats [{}]", axes(pooling).join(", ")))?;
        let numbers = Numbers::default();
        let mut network = Network { session, inputs, output, pooling, dimensions: 0, numbers };
        let (mut dimensions, vectors_of_text) = (0, if pooling == Pooling::Mean { tokens_max } else { 1 });
        network.run(&vec![token_max; tokens_max], 1, |_, vectors| dimensions = vectors.len() / vectors_of_text).map_err(
            |why| format!("it does not accept {tokens_max} tokens with numbers up to {token_max}: {why}; allow fewer tokens, or name the model's own tokenizer"),
        )?;
        if dimensions == 0 {
            return Err("its vectors are empty".into());
        }
        network.dimensions = dimensions;
        Ok(network)
    }

    /// The number of dimensions of a vector.
    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Runs a batch of texts of one length, consecutive in `tokens`; `take` gets the number of each text and
    /// the vectors to pool: the vectors of all its tokens, the vector of its first token, or the model's own
    /// vector.
    ///
    /// # Errors
    /// An error of ONNX Runtime, or an output of another shape.
    pub(crate) fn run(
        &mut self,
        tokens: &[i64],
        texts: usize,
        mut take: impl FnMut(usize, &[f32]),
    ) -> Result<(), String> {
        let length = tokens.len() / texts;
        let values = self.numbers.values(&self.inputs, tokens, texts)?;
        let outputs = self.session.run(values.as_slice()).map_err(text)?;
        let (shape, vectors) = outputs[self.output].try_extract_tensor::<f32>().map_err(text)?;
        let found = dimensions(shape, self.pooling, (texts, length));
        let known = |found: &usize| self.dimensions == 0 || self.dimensions == *found;
        let dimensions = found.filter(known).ok_or_else(|| {
            format!(
                "the output is {shape:?} for {texts} texts of {length} tokens, and {} axes are needed",
                axes(self.pooling).len()
            )
        })?;
        let (all, counted) = match self.pooling {
            Pooling::Mean => (length * dimensions, length * dimensions),
            Pooling::Cls => (length * dimensions, dimensions),
            Pooling::Own => (dimensions, dimensions),
        };
        let texts = vectors.chunks_exact(all.max(1)).enumerate();
        texts.for_each(|(text, vectors)| take(text, &vectors[..counted]));
        Ok(())
    }
}

/// The axes of the output for a pooling.
const fn axes(pooling: Pooling) -> &'static [&'static str] {
    match pooling {
        Pooling::Mean | Pooling::Cls => &["texts", "tokens", "dimensions"],
        Pooling::Own => &["texts", "dimensions"],
    }
}

/// Whether an output contains floats with this number of axes.
fn is_floats(outlet: &Outlet, axes: usize) -> bool {
    matches!(outlet.dtype(), ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } if shape.len() == axes)
}

/// The number of dimensions of a vector in an output of this shape, if the texts and tokens match.
fn dimensions(shape: &[i64], pooling: Pooling, (texts, tokens): (usize, usize)) -> Option<usize> {
    let axes = shape.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<Vec<_>>>()?;
    match (pooling, axes.as_slice()) {
        (Pooling::Own, &[rows, dimensions]) if rows == texts => Some(dimensions),
        (Pooling::Mean | Pooling::Cls, &[rows, columns, dimensions])
            if (rows, columns) == (texts, tokens) =>
        {
            Some(dimensions)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::testing::{Kind, ModelSpec, model};
    use crate::testing::LIBRARY;
    use std::fs;
    use std::path::PathBuf;

    fn load(file: &[u8], token_max: i64) -> Result<Network, String> {
        let path = tempfile::NamedTempFile::new().unwrap();
        fs::write(&path, file).unwrap();
        let (model, library) = (path.path().to_owned(), LIBRARY.clone());
        let files = Files { model, tokenizer: PathBuf::new(), library, pooling: Pooling::Mean };
        Network::load(&files, token_max, 8, None).map_err(|error| match error {
            NetworkError::Model(why) => why,
            NetworkError::Runtime(error) => panic!("{error}"),
        })
    }

    fn check(spec: ModelSpec, token_max: i64, expected: &str) {
        let error = load(&model(spec), token_max).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn an_unsupported_model_is_refused() {
        check(ModelSpec { input: "pixels", ..ModelSpec::GOOD }, 9, "its input pixels is unsupported");
        check(ModelSpec { input: "attention_mask", ..ModelSpec::GOOD }, 9, "it has no input input_ids");
        check(ModelSpec { kind: Kind::F32, ..ModelSpec::GOOD }, 9, "not 64-bit or 32-bit integers");
        check(ModelSpec { flat: true, ..ModelSpec::GOOD }, 9, "it has no output of floats");
        check(ModelSpec { operator: "Unheard", ..ModelSpec::GOOD }, 9, "Unheard");
    }

    #[test]
    fn a_tokenizer_with_more_words_than_the_model_is_refused() {
        check(ModelSpec::GOOD, 10, "it does not accept 8 tokens with numbers up to 10");
    }

    #[test]
    fn a_good_model_gives_a_vector_for_every_token() {
        let mut network = load(&model(ModelSpec::GOOD), 9).unwrap();
        assert_eq!(network.dimensions(), 2);
        let mut found = Vec::new();
        network.run(&[1, 2, 3, 4], 2, |text, vectors| found.push((text, vectors.to_vec()))).unwrap();
        assert_eq!(found, [(0, vec![1.0, -1.0, 2.0, -2.0]), (1, vec![3.0, -3.0, 4.0, -4.0])]);
        assert!(network.run(&[10], 1, |_, _| ()).is_err());
    }

    #[test]
    fn a_model_may_need_positions_and_32_bit_numbers() {
        for kind in [Kind::I32, Kind::I64] {
            let file = model(ModelSpec { kind, positions: true, ..ModelSpec::GOOD });
            let mut network = load(&file, 2).unwrap();
            let mut found = Vec::new();
            network.run(&[1, 2, 3, 4], 2, |_, vectors| found.extend_from_slice(vectors)).unwrap();
            assert_eq!(found, [1.0, -1.0, 3.0, -3.0, 3.0, -3.0, 5.0, -5.0], "{kind:?}");
        }
    }

    #[test]
    fn a_file_that_is_cut_or_altered_never_ends_the_process() {
        let good = model(ModelSpec::GOOD);
        for at in 0..good.len() {
            let _ = load(&good[..at], 9);
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            let _ = load(&bad, 9);
        }
    }
}
