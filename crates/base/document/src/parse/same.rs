//! Parses `$same`: the value of an earlier field.
//!
//! No value is copied at run time: the earlier value depends only on its place, so the same program at the same place
//! generates the same bytes.

use std::rc::Rc;

use crate::arguments::Args;
use crate::error::{Error, suggestion};
use crate::node::{Node, Shape};

use super::Parser;

/// Finds the field that `"field"` or `"outer.inner"` names.
pub(crate) fn parse(parser: &Parser<'_>, args: &Args<'_>) -> Result<Rc<Node>, Error> {
    let target = args.text("the name of an earlier field, such as \"order.total\"")?;
    let mut names = target.split('.');
    let first = names.next().unwrap_or_default();
    let mut known = parser.earlier();
    let found = known.clone().find(|(name, _)| name == first).map(|(_, node)| Rc::clone(node));
    let mut node = found.ok_or_else(|| no_such_field(args, target, &names_of(&mut known)))?;
    for name in names {
        node = inside(&node, name).map_err(|known| no_such_field(args, target, &known))?;
    }
    match node.shape {
        Shape::Pad { .. } => Err(Error::Misplaced {
            path: args.path().to_owned(),
            problem: format!("\"{target}\" is $pad, whose size is not known yet; name another field"),
        }),
        _ => Ok(node),
    }
}

/// The error for a `$same` in the table of generators, which should never occur.
pub(crate) fn misplaced(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    Err(args.expected("the name of an earlier field"))
}

/// The field or item within a value, or the valid names.
fn inside(node: &Node, name: &str) -> Result<Rc<Node>, Vec<String>> {
    match &node.shape {
        Shape::Document(fields) => {
            let found = fields.iter().find(|(field, _)| field == name).map(|(_, node)| Rc::clone(node));
            found.ok_or_else(|| fields.iter().map(|(field, _)| field.clone()).collect())
        }
        Shape::Array(items) => {
            let found = name.parse().ok().and_then(|index: usize| items.get(index)).map(Rc::clone);
            found.ok_or_else(|| (0..items.len()).map(|index| index.to_string()).collect())
        }
        _ => Err(Vec::new()),
    }
}

fn names_of<'a>(fields: &mut impl Iterator<Item = &'a (String, Rc<Node>)>) -> Vec<String> {
    fields.map(|(name, _)| name.clone()).collect()
}

fn no_such_field(args: &Args<'_>, target: &str, known: &[String]) -> Error {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let last = target.rsplit('.').next().unwrap_or_default();
    let remedy = match known.as_slice() {
        [] => "name a field before this one".to_owned(),
        known => suggestion(last, known),
    };
    Error::NoSuchField { path: args.path().to_owned(), target: target.to_owned(), remedy }
}
