//! Builds an ONNX file: nodes, constants, inputs and outputs.
//!
//! The numbers of the fields are those of `onnx.proto`, <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>.

use super::proto::Message;

/// The domain of ONNX Runtime's own operators.
pub(crate) const MICROSOFT: &str = "com.microsoft";
/// The domain of the standard's operators.
pub(crate) const STANDARD: &str = "";

/// The version of the file format.
const IR_VERSION: i64 = 8;
/// The version of the standard's operators.
const OPSET: i64 = 18;
/// The version of ONNX Runtime's own operators.
const OPSET_MICROSOFT: i64 = 1;

/// The type of a tensor's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32 = 1,
    I8 = 3,
    I32 = 6,
    I64 = 7,
}

/// A property of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Attribute {
    Whole(i64),
    Float(f32),
}

/// A graph under construction.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    inputs: Vec<Message>,
    outputs: Vec<Message>,
}

/// One node of a graph, with the names of its inputs and outputs. An empty name marks an omitted input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) operator: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) inputs: &'a [&'a str],
    pub(crate) outputs: &'a [&'a str],
    pub(crate) attributes: &'a [(&'a str, Attribute)],
}

/// One axis of an input or output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Axis<'a> {
    /// Any length; axes with the same name have the same length.
    Free(&'a str),
    Fixed(usize),
}

impl Graph {
    /// Adds a node.
    pub(crate) fn node(&mut self, node: Node<'_>) {
        let Node { operator, domain, inputs, outputs, attributes } = node;
        let message = inputs.iter().fold(Message::default(), |message, input| message.text(1, input));
        let message = outputs.iter().fold(message, |message, output| message.text(2, output));
        let message = message.text(3, outputs.first().unwrap_or(&"")).text(4, operator);
        let message = attributes
            .iter()
            .fold(message, |message, (name, value)| message.message(5, &attribute(name, *value)));
        self.nodes.push(message.text(7, domain));
    }

    /// Adds a constant: its numbers in row order, little-endian.
    pub(crate) fn constant(&mut self, name: &str, kind: Kind, shape: &[usize], raw: &[u8]) {
        let message = shape.iter().fold(Message::default(), |message, &axis| message.number(1, axis as i64));
        self.constants.push(message.number(2, kind as i64).text(8, name).bytes(9, raw));
    }

    /// Adds a constant of floats.
    pub(crate) fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, Kind::F32, shape, &raw);
    }

    /// Declares an input.
    pub(crate) fn input(&mut self, name: &str, kind: Kind, axes: &[Axis<'_>]) {
        self.inputs.push(value(name, kind, axes));
    }

    /// Declares an output.
    pub(crate) fn output(&mut self, name: &str, kind: Kind, axes: &[Axis<'_>]) {
        self.outputs.push(value(name, kind, axes));
    }

    /// The file.
    pub(crate) fn into_file(self, name: &str) -> Vec<u8> {
        let graph = Message::default()
            .messages(1, &self.nodes)
            .text(2, name)
            .messages(5, &self.constants)
            .messages(11, &self.inputs)
            .messages(12, &self.outputs);
        let operators = [(STANDARD, OPSET), (MICROSOFT, OPSET_MICROSOFT)]
            .map(|(domain, version)| Message::default().text(1, domain).number(2, version));
        Message::default()
            .number(1, IR_VERSION)
            .text(2, "plimsoll")
            .message(7, &graph)
            .messages(8, &operators)
            .into_bytes()
    }
}

fn attribute(name: &str, value: Attribute) -> Message {
    let message = Message::default().text(1, name);
    match value {
        Attribute::Float(value) => message.float(2, value).number(20, 1),
        Attribute::Whole(value) => message.number(3, value).number(20, 2),
    }
}

fn value(name: &str, kind: Kind, axes: &[Axis<'_>]) -> Message {
    let axis = |axis: &Axis<'_>| match *axis {
        Axis::Fixed(length) => Message::default().number(1, length as i64),
        Axis::Free(name) => Message::default().text(2, name),
    };
    let shape = Message::default().messages(1, &axes.iter().map(axis).collect::<Vec<_>>());
    let tensor = Message::default().number(1, kind as i64).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}
