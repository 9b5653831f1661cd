//! Builds the graph of MiniLM-L6-v2: a BERT with six layers.
//!
//! It uses the operators that ONNX Runtime runs fastest on a CPU (measured in
//! docs/decisions/0022-embedding.md). Query, key and value come from one product. `MultiHeadAttention` has no
//! mask, since no text is padded. `LayerNormalization` stands alone, because it is vectorised and
//! `SkipLayerNormalization` is not. An int8 product includes its bias; after any other product a separate
//! node adds the bias.

use super::ConvertError;
use super::graph::{Attribute, Axis, Graph, Kind, MICROSOFT, Node, STANDARD};
use super::quantise::{self, Range};
use super::weights::{Matrix, Weights};
use crate::settings::Precision;

const WORDS: usize = 30_522;
const POSITIONS: usize = 512;
const KINDS: usize = 2;
const WIDTH: usize = 384;
const INNER: usize = 1536;
const LAYERS: usize = 6;
const HEADS: i64 = 12;
const EPSILON: f32 = 1e-12;

/// Builds the file.
///
/// # Errors
/// The weights have other names or shapes.
pub(crate) fn build(
    weights: &Weights<'_>,
    precision: Precision,
    range: Range,
) -> Result<Vec<u8>, ConvertError> {
    let mut bert = Bert { graph: Graph::default(), weights, precision, range };
    let axes = [Axis::Free("texts"), Axis::Free("tokens")];
    bert.graph.input("input_ids", Kind::I64, &axes);
    let mut x = bert.embeddings()?;
    for layer in 0..LAYERS {
        x = bert.layer(layer, &x)?;
    }
    bert.node("Identity", STANDARD, &[&x], &["last_hidden_state"], &[]);
    bert.graph.output("last_hidden_state", Kind::F32, &[axes[0], axes[1], Axis::Fixed(WIDTH)]);
    Ok(bert.graph.into_file("minilm-l6-v2"))
}

struct Bert<'a> {
    graph: Graph,
    weights: &'a Weights<'a>,
    precision: Precision,
    range: Range,
}

impl Bert<'_> {
    /// Adds word and position embeddings, and normalises the sum. All tokens have the first type, so its
    /// vector is added to the positions here.
    fn embeddings(&mut self) -> Result<String, ConvertError> {
        let words = self.weights.matrix("embeddings.word_embeddings.weight", WORDS, WIDTH)?;
        let mut positions = self.weights.matrix("embeddings.position_embeddings.weight", POSITIONS, WIDTH)?;
        let kinds = self.weights.matrix("embeddings.token_type_embeddings.weight", KINDS, WIDTH)?;
        for row in positions.values.chunks_exact_mut(WIDTH) {
            row.iter_mut().zip(&kinds.values).for_each(|(position, kind)| *position += kind);
        }
        self.graph.floats("words", &[WORDS, WIDTH], &words.values);
        self.graph.floats("positions", &[POSITIONS, WIDTH], &positions.values);
        let (gain, shift) = self.normalisation("embeddings.LayerNorm")?;
        // The operator needs 32-bit integers.
        let to = [("to", Attribute::Whole(Kind::I32 as i64))];
        self.node("Cast", STANDARD, &["input_ids"], &["ids"], &to);
        let inputs = ["ids", "", "words", "positions", "", &gain, &shift];
        let epsilon = [("epsilon", Attribute::Float(EPSILON))];
        self.node("EmbedLayerNormalization", MICROSOFT, &inputs, &["embedded", "unused"], &epsilon);
        Ok("embedded".to_owned())
    }

    /// One layer: attention, then a product to four times the width and back; both add their input to their
    /// output.
    fn layer(&mut self, layer: usize, x: &str) -> Result<String, ConvertError> {
        let of = format!("encoder.layer.{layer}");
        let attended = self.attention(&of, x)?;
        let output = format!("{of}.attention.output");
        let projected = self.product(&format!("{output}.dense"), &attended, WIDTH, WIDTH)?;
        let x = self.added(&format!("{output}.LayerNorm"), &projected, x)?;
        let wide = self.product(&format!("{of}.intermediate.dense"), &x, WIDTH, INNER)?;
        let bent = format!("{wide}.gelu");
        self.node("Gelu", MICROSOFT, &[&wide], &[&bent], &[]);
        let narrow = self.product(&format!("{of}.output.dense"), &bent, INNER, WIDTH)?;
        self.added(&format!("{of}.output.LayerNorm"), &narrow, &x)
    }

    fn attention(&mut self, of: &str, x: &str) -> Result<String, ConvertError> {
        let part = |name: &str| format!("{of}.attention.self.{name}");
        let (names, all) = (["query", "key", "value"].map(part), part("all"));
        let matrix = |name: &String| self.weights.matrix(&format!("{name}.weight"), WIDTH, WIDTH);
        let stacked = matrix(&names[0])?.above(matrix(&names[1])?).above(matrix(&names[2])?);
        let mut bias = Vec::with_capacity(3 * WIDTH);
        for name in &names {
            bias.extend(self.weights.vector(&format!("{name}.bias"), WIDTH)?);
        }
        let product = self.linear(&all, x, &stacked.transposed(), &bias);
        let parts = names.each_ref().map(String::as_str);
        let split = [("axis", Attribute::Whole(-1)), ("num_outputs", Attribute::Whole(3))];
        self.node("Split", STANDARD, &[&product], &parts, &split);
        let heads = [("num_heads", Attribute::Whole(HEADS))];
        let attended = part("attended");
        self.node("MultiHeadAttention", MICROSOFT, &parts, &[&attended], &heads);
        Ok(attended)
    }

    /// x · W + b, with the weights of that name.
    fn product(&mut self, name: &str, x: &str, from: usize, to: usize) -> Result<String, ConvertError> {
        let matrix = self.weights.matrix(&format!("{name}.weight"), to, from)?.transposed();
        let bias = self.weights.vector(&format!("{name}.bias"), to)?;
        Ok(self.linear(name, x, &matrix, &bias))
    }

    fn linear(&mut self, name: &str, x: &str, matrix: &Matrix, bias: &[f32]) -> String {
        let [w, b, s, y] = ["w", "b", "s", "y"].map(|suffix| format!("{name}.{suffix}"));
        self.graph.floats(&b, &[matrix.columns], bias);
        let shape = [matrix.rows, matrix.columns];
        match self.precision {
            Precision::Fp32 => {
                self.graph.floats(&w, &shape, &matrix.values);
                let product = format!("{name}.product");
                self.node("MatMul", STANDARD, &[x, &w], &[&product], &[]);
                self.node("Add", STANDARD, &[&product, &b], &[&y], &[]);
            }
            Precision::Int8 => {
                let quantised = quantise::by_column(matrix, self.range);
                let raw: Vec<u8> = quantised.bytes.iter().map(|byte| byte.cast_unsigned()).collect();
                self.graph.constant(&w, Kind::I8, &shape, &raw);
                self.graph.floats(&s, &[matrix.columns], &quantised.scales);
                self.node("DynamicQuantizeMatMul", MICROSOFT, &[x, &w, &s, "", &b], &[&y], &[]);
            }
        }
        y
    }

    /// x + y, normalised.
    fn added(&mut self, name: &str, x: &str, y: &str) -> Result<String, ConvertError> {
        let (gain, shift) = self.normalisation(name)?;
        let (sum, normal) = (format!("{name}.sum"), format!("{name}.y"));
        self.node("Add", STANDARD, &[x, y], &[&sum], &[]);
        let attributes = [("axis", Attribute::Whole(-1)), ("epsilon", Attribute::Float(EPSILON))];
        self.node("LayerNormalization", STANDARD, &[&sum, &gain, &shift], &[&normal], &attributes);
        Ok(normal)
    }

    /// Adds the two vectors of a normalisation to the graph. Returns their names.
    fn normalisation(&mut self, name: &str) -> Result<(String, String), ConvertError> {
        let (gain, shift) = (format!("{name}.weight"), format!("{name}.bias"));
        for name in [&gain, &shift] {
            let values = self.weights.vector(name, WIDTH)?;
            self.graph.floats(name, &[WIDTH], &values);
        }
        Ok((gain, shift))
    }

    fn node(
        &mut self,
        operator: &str,
        domain: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) {
        self.graph.node(Node { operator, domain, inputs, outputs, attributes });
    }
}
