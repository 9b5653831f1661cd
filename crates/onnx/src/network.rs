//! One model in ONNX Runtime: from the numbers of tokens to a vector for each.

use std::fs;
use std::path::Path;

use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{Outlet, TensorElementType, TensorRef, ValueType};

use crate::runtime::{self, RuntimeError};
use crate::weights::Weights;

/// The longest ONNX file in one piece; a file of the Protocol Buffers has no more.
const FILE_BYTES_MAX: u64 = 1 << 31;
/// Steps of ONNX Runtime's optimiser that make a model slower on a CPU: what they put together is not vectorised.
const UNWANTED: &str = "SkipLayerNormFusion;BiasGeluFusion";

/// A model, ready to run on the thread that calls it.
pub(crate) struct Network {
    session: Session,
    inputs: Vec<Input>,
    output: usize,
    dimensions: usize,
    ones: Vec<i64>,
    zeros: Vec<i64>,
}

/// What a model may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// The numbers of the tokens.
    Tokens,
    /// Which of them count: all.
    Mask,
    /// Which are of a second text: none.
    Kinds,
}

/// A file could not be made a network.
#[derive(Debug)]
pub(crate) enum NetworkError {
    Runtime(RuntimeError),
    Model(String),
}

impl Network {
    /// Loads an ONNX file, and runs it once with as many tokens as a text may have, each with the highest number that the
    /// tokenizer gives. With `weights`, which are those of the same file, it keeps none of its own.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub(crate) fn load(
        library: &Path,
        model: &Path,
        token_max: i64,
        tokens_max: usize,
        weights: Option<&Weights>,
    ) -> Result<Self, NetworkError> {
        check_size(model)?;
        let environment = runtime::environment(library).map_err(NetworkError::Runtime)?;
        let build = || -> Result<Session, String> {
            let builder = Session::builder(&environment).map_err(text)?;
            let builder = builder.with_intra_threads(1).map_err(text)?.with_inter_threads(1).map_err(text)?;
            let builder = builder.with_optimization_level(GraphOptimizationLevel::All).map_err(text)?;
            // Every length has its own shapes: a plan of memory for each would be kept for ever.
            let builder = builder.with_memory_pattern(false).map_err(text)?;
            let builder = builder.with_disabled_optimizers(UNWANTED).map_err(text)?;
            let mut builder = match weights {
                Some(weights) => weights.give(builder)?,
                None => builder,
            };
            builder.commit_from_file(model).map_err(text)
        };
        let session = build().map_err(NetworkError::Model)?;
        Network::of(session, token_max, tokens_max).map_err(NetworkError::Model)
    }

    fn of(session: Session, token_max: i64, tokens_max: usize) -> Result<Self, String> {
        let inputs = session.inputs().iter().map(input).collect::<Result<Vec<_>, _>>()?;
        if !inputs.contains(&Input::Tokens) {
            return Err("it has no input input_ids".into());
        }
        let output = session.outputs().iter().position(is_of_tokens);
        let output = output.ok_or("it has no output of floats [texts, tokens, dimensions]")?;
        let (ones, zeros) = (Vec::new(), Vec::new());
        let mut network = Network { session, inputs, output, dimensions: 0, ones, zeros };
        let mut dimensions = 0;
        network.run(&vec![token_max; tokens_max], 1, |_, vectors| dimensions = vectors.len() / tokens_max).map_err(
            |why| format!("it does not take {tokens_max} tokens with numbers up to {token_max}: {why}; allow fewer tokens, or give the tokenizer that belongs to it"),
        )?;
        if dimensions == 0 {
            return Err("its vectors have no numbers".into());
        }
        network.dimensions = dimensions;
        Ok(network)
    }

    /// How many numbers a vector has.
    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Runs a batch of texts of one length, one after the other in `tokens`; `take` is given the number of each text and
    /// the vectors of its tokens.
    ///
    /// # Errors
    /// What ONNX Runtime says, or that the output has another shape.
    pub(crate) fn run(
        &mut self,
        tokens: &[i64],
        texts: usize,
        mut take: impl FnMut(usize, &[f32]),
    ) -> Result<(), String> {
        self.ones.resize(tokens.len(), 1);
        self.zeros.resize(tokens.len(), 0);
        let length = tokens.len() / texts;
        let mut values: Vec<SessionInputValue<'_>> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let numbers = match input {
                Input::Tokens => tokens,
                Input::Mask => &self.ones,
                Input::Kinds => &self.zeros,
            };
            values.push(TensorRef::from_array_view(([texts, length], numbers)).map_err(text)?.into());
        }
        let outputs = self.session.run(values.as_slice()).map_err(text)?;
        let (shape, vectors) = outputs[self.output].try_extract_tensor::<f32>().map_err(text)?;
        let expected = |axis: usize, length: usize| usize::try_from(shape[axis]) == Ok(length);
        let dimensions = shape.get(2).map_or(0, |&dimensions| usize::try_from(dimensions).unwrap_or(0));
        let known = self.dimensions == 0 || self.dimensions == dimensions;
        if shape.len() != 3 || !expected(0, texts) || !expected(1, length) || !known {
            return Err(format!("the output is {shape:?}, not [{texts}, {length}, dimensions]"));
        }
        vectors
            .chunks_exact((length * dimensions).max(1))
            .enumerate()
            .for_each(|(text, vectors)| take(text, vectors));
        Ok(())
    }
}

/// Refuses a file that is too large.
pub(crate) fn check_size(model: &Path) -> Result<(), NetworkError> {
    let bytes = fs::metadata(model).map_err(|error| NetworkError::Model(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(NetworkError::Model(format!("it has {bytes} bytes, more than {FILE_BYTES_MAX}")));
    }
    Ok(())
}

fn input(outlet: &Outlet) -> Result<Input, String> {
    let name = outlet.name();
    let input = match name {
        "input_ids" => Input::Tokens,
        "attention_mask" => Input::Mask,
        "token_type_ids" => Input::Kinds,
        _ => {
            return Err(format!(
                "it wants an input {name}; known are input_ids, attention_mask and token_type_ids"
            ));
        }
    };
    match outlet.dtype() {
        ValueType::Tensor { ty: TensorElementType::Int64, shape, .. } if shape.len() == 2 => Ok(input),
        other => Err(format!("its input {name} is {other}, not 64-bit whole numbers [texts, tokens]")),
    }
}

/// Whether an output has a vector of floats for every token.
fn is_of_tokens(outlet: &Outlet) -> bool {
    matches!(outlet.dtype(), ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } if shape.len() == 3)
}

/// What ONNX Runtime says.
pub(crate) fn text<T>(error: ort::Error<T>) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::testing::{Asked, model};
    use crate::testing::LIBRARY;

    fn load(file: &[u8], token_max: i64) -> Result<Network, String> {
        let path = tempfile::NamedTempFile::new().unwrap();
        fs::write(&path, file).unwrap();
        Network::load(&LIBRARY, path.path(), token_max, 8, None).map_err(|error| match error {
            NetworkError::Model(why) => why,
            NetworkError::Runtime(error) => panic!("{error}"),
        })
    }

    fn check(asked: Asked, token_max: i64, expected: &str) {
        let error = load(&model(asked), token_max).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_model_of_another_form_is_refused() {
        check(Asked { input: "pixels", ..Asked::GOOD }, 9, "it wants an input pixels");
        check(Asked { input: "attention_mask", ..Asked::GOOD }, 9, "it has no input input_ids");
        check(Asked { whole: false, ..Asked::GOOD }, 9, "not 64-bit whole numbers");
        check(Asked { flat: true, ..Asked::GOOD }, 9, "it has no output of floats");
        check(Asked { operator: "Unheard", ..Asked::GOOD }, 9, "Unheard");
    }

    #[test]
    fn a_tokenizer_with_more_words_than_the_model_is_refused() {
        check(Asked::GOOD, 10, "it does not take 8 tokens with numbers up to 10");
    }

    #[test]
    fn a_good_model_gives_a_vector_for_every_token() {
        let mut network = load(&model(Asked::GOOD), 9).unwrap();
        assert_eq!(network.dimensions(), 2);
        let mut found = Vec::new();
        network.run(&[1, 2, 3, 4], 2, |text, vectors| found.push((text, vectors.to_vec()))).unwrap();
        assert_eq!(found, [(0, vec![1.0, -1.0, 2.0, -2.0]), (1, vec![3.0, -3.0, 4.0, -4.0])]);
        assert!(network.run(&[10], 1, |_, _| ()).is_err());
    }

    #[test]
    fn a_file_that_is_cut_or_altered_never_ends_the_process() {
        let good = model(Asked::GOOD);
        for at in 0..good.len() {
            let _ = load(&good[..at], 9);
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            let _ = load(&bad, 9);
        }
    }
}
