//! Compiles a template and encodes its documents.

use std::rc::Rc;

use plimsoll_element::kind;

use crate::compile::{self, Op};
use crate::error::Error;
use crate::fill::{Fill, fill_text};
use crate::generator::GENERATORS;
use crate::node::{Hole, Node, STRING_FRAME, Shape, string_length};
use crate::parse::{self, FieldNodes};
use crate::random::{Draw, base, versioned};
use crate::render::{self, Scope};
use crate::size::Size;
use crate::{IdForm, Identity, Settings, Template, ycsb_id};

/// A compiled template: makes the document of any number, without state.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    seed: u64,
    size: Size,
    form: Form,
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// The steps of the whole document; a single run when every document has the same size.
    Whole(Vec<Op>),
    /// The fields around a padding string, which brings the document to `to` bytes.
    Padded { head: Vec<Op>, salt: u64, to: usize, tail: Vec<Op> },
}

impl Program {
    /// Compiles a template.
    ///
    /// # Errors
    /// When the template does not follow the grammar of [`Template`], or the document may exceed the size limit of the
    /// settings. The message names the path and the remedy.
    pub fn compile(template: &Template, settings: &Settings) -> Result<Self, Error> {
        let mut fields = parse::parse(template, settings, &GENERATORS)?;
        fields.splice(0..0, id_field(settings.id));
        fields.extend(
            settings.stamp.iter().map(|name| (name.clone(), identity_node(kind::INT64, 8, Fill::Stamp))),
        );
        Self::of_fields(fields, settings)
    }

    /// Compiles a filter or an update. Operators of MongoDB such as `$set` or `$gt` are allowed as well as
    /// generators, and neither `_id` nor a stamp is added. Only the seed, the start and the size limit of the
    /// settings matter. A name that is both (`$text`) is a generator.
    ///
    /// # Errors
    /// As [`Program::compile`].
    pub fn fragment(template: &Template, settings: &Settings) -> Result<Self, Error> {
        Self::of_fields(parse::fragment(template, settings, &GENERATORS)?, settings)
    }

    fn of_fields(fields: FieldNodes, settings: &Settings) -> Result<Self, Error> {
        let size = Shape::Document(Vec::new()).size();
        let size = fields.iter().fold(size, |size, (name, node)| size.plus(node.element_size(name.len())));
        if size.max > settings.bytes_max {
            return Err(Error::TooLarge { bytes: size.max, limit: settings.bytes_max });
        }
        let (size, form) = form(fields, size)?;
        Ok(Self { seed: settings.seed, size, form })
    }

    /// Appends the BSON of document `number`: `_id` first (unless the template supplies it), then the template's fields in
    /// their order, then the stamp. Allocates only space in `out`.
    #[inline]
    pub fn encode(&self, number: u64, identity: &Identity, out: &mut Vec<u8>) {
        self.encode_with(self.seed, number, identity, out);
    }

    /// Appends the BSON of a version of document `number`. Version 0 is the document of [`Program::encode`];
    /// every other version has different random values.
    #[inline]
    pub fn encode_version(&self, version: u32, number: u64, identity: &Identity, out: &mut Vec<u8>) {
        self.encode_with(versioned(self.seed, version), number, identity, out);
    }

    #[inline]
    fn encode_with(&self, seed: u64, number: u64, identity: &Identity, out: &mut Vec<u8>) {
        let scope = Scope::new(base(seed, number), number, identity);
        match &self.form {
            Form::Whole(ops) => match ops.as_slice() {
                [Op::Run(run)] => render::copy(run, &scope, out),
                ops => render::render(ops, &scope, out),
            },
            Form::Padded { head, salt, to, tail } => {
                let start = out.len();
                render::render(head, &scope, out);
                let (at, place) = (out.len(), scope.draw(*salt));
                render::render(tail, &scope, out);
                let bytes = to - (out.len() - start);
                pad(at, &place, bytes, out);
                out[start..start + 4].copy_from_slice(&(*to as u32).to_le_bytes());
            }
        }
    }

    /// Whether all documents are the same: the template has no generator.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let Form::Whole(ops) = &self.form else { return false };
        matches!(ops.as_slice(), [Op::Run(run)] if run.patches.is_empty())
    }

    /// The least and the largest size of a document, in bytes; equal when every document has the same size.
    #[must_use]
    pub fn len_bounds(&self) -> (usize, usize) {
        (self.size.min, self.size.max)
    }
}

/// The field of the receipt, unless the template supplies `_id`.
fn id_field(form: IdForm) -> Option<(String, Rc<Node>)> {
    let node = match form {
        IdForm::ObjectId => identity_node(kind::OBJECT_ID, 12, Fill::Receipt),
        IdForm::String => Node::new(Shape::Hole(Hole::string("", 24, Fill::ReceiptText)), 0, 0),
        IdForm::User => Node::new(Shape::Hole(Hole::string("user", ycsb_id::DIGITS, Fill::YcsbId)), 0, 0),
        IdForm::Own => return None,
    };
    Some(("_id".to_owned(), node))
}

fn identity_node(kind: u8, width: usize, fill: Fill) -> Rc<Node> {
    Node::new(Shape::Hole(Hole::bare(kind, width, fill)), 0, 0)
}

/// Compiles the fields; padding of a known size becomes normal text.
fn form(mut fields: FieldNodes, size: Size) -> Result<(Size, Form), Error> {
    let pad = fields.iter().enumerate().find_map(|(index, (_, node))| match node.shape {
        Shape::Pad { to } => Some((index, node.salt, to)),
        _ => None,
    });
    let Some((index, salt, to)) = pad else { return Ok((size, Form::Whole(compile::document(&fields)))) };
    if size.max > to {
        let path = format!("document.{}.$pad.to", fields[index].0);
        return Err(Error::PadTooShort { path, needed: size.max });
    }
    let form = if size.min == size.max {
        let text = Hole::string("", to - size.max, Fill::Text);
        fields[index].1 = Node::new(Shape::Hole(text), salt, 0);
        Form::Whole(compile::document(&fields))
    } else {
        let (head, tail) =
            (compile::head(&fields[..index], &fields[index].0), compile::tail(&fields[index + 1..]));
        Form::Padded { head, salt, to, tail }
    };
    Ok((Size::exact(to), form))
}

/// Inserts a string at `at`, so that `out` grows by `bytes`.
fn pad(at: usize, draw: &Draw<'_>, bytes: usize, out: &mut Vec<u8>) {
    let end = out.len();
    out.resize(end + bytes, 0);
    out.copy_within(at..end, at + bytes);
    let text = bytes - STRING_FRAME;
    out[at..at + 4].copy_from_slice(&string_length(text));
    fill_text(&mut draw.words(), &mut out[at + 4..at + 4 + text]);
    out[at + 4 + text] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    #[test]
    fn a_template_is_constant_only_without_a_generator() {
        for (typed, is_constant) in [
            (r#"{}"#, true),
            (r#"{"$set": {"a": [1, {"b": "x"}], "n": {"$numberLong": "5"}}}"#, true),
            (r#"{"a": {"$bool": {}}}"#, false),
            (r#"{"a": {"$pick": {"from": ["x", "yy"], "weights": [1000000, 1]}}}"#, false),
            (r#"{"a": {"$optional": {"probability": 0.9, "value": 1}}}"#, false),
            (r#"{"a": {"$pad": {"to": 64}}}"#, false),
            (r#"{"a": {"$pad": {"to": 64}}, "b": {"$optional": {"value": 1}}}"#, false),
        ] {
            let template: Template = serde_json::from_str(typed).unwrap();
            let program = Program::fragment(&template, &Settings::default()).unwrap();
            assert_eq!(program.is_constant(), is_constant, "{typed}");
        }
    }

    #[test]
    fn a_fragment_may_contain_operators_and_generators() {
        let typed = r#"{"$set": {"a": {"$number": {}}, "b": {"$date": "1970-01-01T00:00:00Z"}}, "n": {"$gt": 5, "$lt": {"$sequence": {}}}}"#;
        let template: Template = serde_json::from_str(typed).unwrap();
        let program = Program::fragment(&template, &Settings::default()).unwrap();
        let mut out = Vec::new();
        program.encode(7, &Identity::default(), &mut out);
        let epoch = bson::DateTime::from_millis(0);
        let expected = doc! {"$set": {"a": 7_i64, "b": epoch}, "n": {"$gt": 5, "$lt": 7_i64}};
        assert_eq!(Document::from_reader(out.as_slice()).unwrap(), expected);
        assert!(Program::compile(&template, &Settings::default()).is_err());
    }
}
