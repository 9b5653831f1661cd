//! Builds the input tensors of a model; exporters differ in their names and types.

use ort::session::SessionInputValue;
use ort::value::{Outlet, Tensor, TensorElementType, TensorRef, ValueType};

use crate::runtime::text;

/// One input of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    meaning: Meaning,
    width: Width,
}

/// The meaning of an input, for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The token's number.
    Tokens,
    /// The attention mask: always 1.
    Mask,
    /// The token type: always 0, the first text.
    Types,
    /// The token's position in its text, from zero.
    Positions,
}

/// The width of the input's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Bits64,
    Bits32,
}

/// The numbers of the inputs other than the tokens. Their memory is reused from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    ones: Vec<i64>,
    zeros: Vec<i64>,
    places: Vec<i64>,
}

impl Input {
    /// Recognises an input that a model declares.
    ///
    /// # Errors
    /// The input is unknown.
    pub(crate) fn of(outlet: &Outlet) -> Result<Self, String> {
        let name = outlet.name();
        let meaning = match name {
            "input_ids" => Meaning::Tokens,
            "attention_mask" => Meaning::Mask,
            "token_type_ids" => Meaning::Types,
            "position_ids" => Meaning::Positions,
            _ => {
                return Err(format!(
                    "its input {name} is unsupported; supported are input_ids, attention_mask, token_type_ids and position_ids"
                ));
            }
        };
        let width = match outlet.dtype() {
            ValueType::Tensor { ty: TensorElementType::Int64, shape, .. } if shape.len() == 2 => {
                Width::Bits64
            }
            ValueType::Tensor { ty: TensorElementType::Int32, shape, .. } if shape.len() == 2 => {
                Width::Bits32
            }
            other => {
                return Err(format!(
                    "its input {name} is {other}, not 64-bit or 32-bit integers [texts, tokens]"
                ));
            }
        };
        Ok(Self { meaning, width })
    }

    /// Whether this is the input of the tokens.
    pub(crate) fn is_of_tokens(self) -> bool {
        self.meaning == Meaning::Tokens
    }

    /// The input's value for `shape` texts and tokens.
    fn value(self, numbers: &[i64], shape: [usize; 2]) -> Result<SessionInputValue<'_>, String> {
        match self.width {
            Width::Bits64 => Ok(TensorRef::from_array_view((shape, numbers)).map_err(text)?.into()),
            Width::Bits32 => {
                let narrow = numbers.iter().map(|&number| i32::try_from(number));
                let narrow: Vec<i32> = narrow.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
                Ok(Tensor::from_array((shape, narrow)).map_err(text)?.into())
            }
        }
    }
}

impl Numbers {
    /// The values of these inputs for texts of one length, consecutive in `tokens`.
    ///
    /// # Errors
    /// An error of ONNX Runtime, or a number that does not fit its input.
    pub(crate) fn values<'n>(
        &'n mut self,
        inputs: &[Input],
        tokens: &'n [i64],
        texts: usize,
    ) -> Result<Vec<SessionInputValue<'n>>, String> {
        let length = tokens.len() / texts;
        self.ones.resize(tokens.len(), 1);
        self.zeros.resize(tokens.len(), 0);
        self.places.clear();
        self.places.extend((0..texts).flat_map(|_| (0_i64..).take(length)));
        let all = &*self;
        let numbers = |meaning| match meaning {
            Meaning::Tokens => tokens,
            Meaning::Mask => &all.ones,
            Meaning::Types => &all.zeros,
            Meaning::Positions => &all.places,
        };
        inputs.iter().map(|input| input.value(numbers(input.meaning), [texts, length])).collect()
    }
}
