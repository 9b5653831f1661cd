//! Builds the input tensors of a model; exporters differ in their names and types.

use ort::session::SessionInputValue;
use ort::value::{Outlet, Tensor, TensorElementType, TensorRef, ValueType};

use crate::runtime::text;

/// One input of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    what: What,
    width: Width,
}

/// What it is of each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Its number.
    Tokens,
    /// Whether it counts: all do.
    Mask,
    /// Whether it is of a second text: none is.
    Kinds,
    /// Its place in its text, from zero.
    Places,
}

/// How many bits its numbers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Bits64,
    Bits32,
}

/// What models are given besides the tokens, kept from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    ones: Vec<i64>,
    zeros: Vec<i64>,
    places: Vec<i64>,
}

impl Input {
    /// The input that a model declares.
    ///
    /// # Errors
    /// It is none of those that are known.
    pub(crate) fn of(outlet: &Outlet) -> Result<Self, String> {
        let name = outlet.name();
        let what = match name {
            "input_ids" => What::Tokens,
            "attention_mask" => What::Mask,
            "token_type_ids" => What::Kinds,
            "position_ids" => What::Places,
            _ => {
                return Err(format!(
                    "it wants an input {name}; known are input_ids, attention_mask, token_type_ids and position_ids"
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
                    "its input {name} is {other}, not whole numbers of 64 or 32 bits [texts, tokens]"
                ));
            }
        };
        Ok(Self { what, width })
    }

    /// Whether it is that of the tokens.
    pub(crate) fn is_of_tokens(self) -> bool {
        self.what == What::Tokens
    }

    /// Its value: so many texts of one length.
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
    /// The values of these inputs for texts of one length, one after the other in `tokens`.
    ///
    /// # Errors
    /// What ONNX Runtime says, or that a number has more bits than its input.
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
        let numbers = |what| match what {
            What::Tokens => tokens,
            What::Mask => &all.ones,
            What::Kinds => &all.zeros,
            What::Places => &all.places,
        };
        inputs.iter().map(|input| input.value(numbers(input.what), [texts, length])).collect()
    }
}
