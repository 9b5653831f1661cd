//! Builds a model of one node, and invalid variants of it, for tests of loading.

pub(crate) use super::graph::Kind;
use super::graph::{Axis, Graph, Node, STANDARD};

/// Describes a model.
#[derive(Clone, Copy)]
pub(crate) struct ModelSpec {
    /// The name of its input.
    pub(crate) input: &'static str,
    /// The type of its inputs.
    pub(crate) kind: Kind,
    /// Whether the model adds the position of each token to its number.
    pub(crate) positions: bool,
    /// Whether the output has only two axes.
    pub(crate) flat: bool,
    /// The operator of the output.
    pub(crate) operator: &'static str,
}

impl ModelSpec {
    /// A valid model: the vector of token n is [n, -n], for ten tokens.
    pub(crate) const GOOD: ModelSpec =
        ModelSpec { input: "input_ids", kind: Kind::I64, positions: false, flat: false, operator: "Gather" };
}

pub(crate) fn model(spec: ModelSpec) -> Vec<u8> {
    let mut graph = Graph::default();
    let axes = [Axis::Free("texts"), Axis::Free("tokens")];
    graph.input(spec.input, spec.kind, &axes);
    let tokens = if spec.positions { "placed" } else { spec.input };
    if spec.positions {
        graph.input("position_ids", spec.kind, &axes);
        let inputs = &[spec.input, "position_ids"];
        graph.node(Node { operator: "Add", domain: STANDARD, inputs, outputs: &[tokens], attributes: &[] });
    }
    let table: Vec<f32> = (0..10_u8).flat_map(|n| [f32::from(n), -f32::from(n)]).collect();
    graph.floats("table", &[10, 2], &table);
    let good = spec.kind != Kind::F32 && !spec.flat;
    let (operator, inputs) =
        if good { (spec.operator, vec!["table", tokens]) } else { ("Cast", vec![spec.input]) };
    let to = [("to", super::graph::Attribute::Whole(Kind::F32 as i64))];
    let attributes = if good { &[][..] } else { &to[..] };
    let node = Node { operator, domain: STANDARD, inputs: &inputs, outputs: &["out"], attributes };
    graph.node(node);
    let output = [axes[0], axes[1], Axis::Fixed(2)];
    graph.output("out", Kind::F32, if good { &output } else { &output[..2] });
    graph.into_file("test")
}

/// A file that consists of constants, each a name, a shape and its numbers.
pub(crate) fn file_with(constants: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
    let mut graph = Graph::default();
    for (name, shape, values) in constants {
        graph.floats(name, shape, values);
    }
    graph.into_file("test")
}
