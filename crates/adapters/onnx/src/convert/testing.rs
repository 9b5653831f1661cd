//! Builds a model of one node, and invalid variants of it, for tests of loading.

pub(crate) use super::graph::Kind;
use super::graph::{Axis, Graph, Node, STANDARD};

/// What the model shall be.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// The name of its input.
    pub(crate) input: &'static str,
    /// What the numbers of its inputs are.
    pub(crate) kind: Kind,
    /// Whether it adds the place of each token to its number.
    pub(crate) places: bool,
    /// Whether the output has two axes only.
    pub(crate) flat: bool,
    /// What makes the output.
    pub(crate) operator: &'static str,
}

impl Asked {
    /// A good one: the vector of token n is [n, -n], and there are ten.
    pub(crate) const GOOD: Asked =
        Asked { input: "input_ids", kind: Kind::I64, places: false, flat: false, operator: "Gather" };
}

pub(crate) fn model(asked: Asked) -> Vec<u8> {
    let mut graph = Graph::default();
    let axes = [Axis::Free("texts"), Axis::Free("tokens")];
    graph.input(asked.input, asked.kind, &axes);
    let tokens = if asked.places { "placed" } else { asked.input };
    if asked.places {
        graph.input("position_ids", asked.kind, &axes);
        let inputs = &[asked.input, "position_ids"];
        graph.node(Node { operator: "Add", domain: STANDARD, inputs, outputs: &[tokens], attributes: &[] });
    }
    let table: Vec<f32> = (0..10_u8).flat_map(|n| [f32::from(n), -f32::from(n)]).collect();
    graph.floats("table", &[10, 2], &table);
    let good = asked.kind != Kind::F32 && !asked.flat;
    let (operator, inputs) =
        if good { (asked.operator, vec!["table", tokens]) } else { ("Cast", vec![asked.input]) };
    let to = [("to", super::graph::Attribute::Whole(Kind::F32 as i64))];
    let attributes = if good { &[][..] } else { &to[..] };
    let node = Node { operator, domain: STANDARD, inputs: &inputs, outputs: &["out"], attributes };
    graph.node(node);
    let output = [axes[0], axes[1], Axis::Fixed(2)];
    graph.output("out", Kind::F32, if good { &output } else { &output[..2] });
    graph.into_file("test")
}

/// A file of constants, each a name, a shape and its numbers, and nothing else.
pub(crate) fn file_with(constants: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
    let mut graph = Graph::default();
    for (name, shape, values) in constants {
        graph.floats(name, shape, values);
    }
    graph.into_file("test")
}
