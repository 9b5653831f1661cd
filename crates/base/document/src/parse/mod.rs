//! Parses a typed template to a tree of values.

pub(crate) mod duration;

mod extended;

pub(crate) mod same;

use std::rc::Rc;

use serde_json::{Map, Value};

use crate::arguments::Args;
use crate::error::{Error, suggestion};
use crate::node::{Node, Shape};
use crate::random::salt;
use crate::{DEPTH_MAX, IdForm, Settings, Template};

/// The fields of a document in order.
pub(crate) type FieldNodes = Vec<(String, Rc<Node>)>;

/// Parses the settings of a generator.
pub(crate) type Parse = fn(&mut Parser<'_>, &Args<'_>) -> Result<Shape, Error>;

/// The generators by name.
pub(crate) type Generators = [(&'static str, Parse)];

/// The state of a walk through the template.
pub(crate) struct Parser<'s> {
    settings: &'s Settings,
    generators: &'static Generators,
    dollars: Dollars,
    /// The finished fields of the documents around the current value, outermost first.
    levels: Vec<FieldNodes>,
    /// The nesting of the current value; 1 for a field of the document itself.
    nesting: usize,
    /// The number of generated arrays around the current value.
    arrays: usize,
    pad: Option<String>,
}

/// The meaning of a name that begins with `$` and is neither a generator nor Extended JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dollars {
    /// The name is a typo, and an error.
    Refused,
    /// The name is an operator of MongoDB.
    Operators,
}

/// Parses the fields of a filter or an update, which may contain MongoDB's operators.
pub(crate) fn fragment(
    template: &Template,
    settings: &Settings,
    generators: &'static Generators,
) -> Result<FieldNodes, Error> {
    parser(settings, generators, Dollars::Operators).document("", template.fields())
}

fn parser<'s>(settings: &'s Settings, generators: &'static Generators, dollars: Dollars) -> Parser<'s> {
    Parser { settings, generators, dollars, levels: Vec::new(), nesting: 0, arrays: 0, pad: None }
}

/// Parses the fields of a template and checks them against the settings.
pub(crate) fn parse(
    template: &Template,
    settings: &Settings,
    generators: &'static Generators,
) -> Result<FieldNodes, Error> {
    check_reserved(template.fields(), settings)?;
    let mut parser = parser(settings, generators, Dollars::Refused);
    if let Some(name) = template.fields().keys().find(|name| name.starts_with('$')) {
        return Err(field(
            &format!("document.{name}"),
            "a field's name cannot begin with \"$\"; give the value a name",
        ));
    }
    parser.document("document", template.fields())
}

/// Checks that the template does not use reserved names.
fn check_reserved(fields: &Map<String, Value>, settings: &Settings) -> Result<(), Error> {
    let has_id = fields.contains_key("_id");
    if has_id && settings.id != IdForm::Own {
        let problem = "Plimsoll writes its receipt to _id; remove the field, or set `id: own` to keep it (documents are then \
                       counted, not proven)";
        return Err(field("document._id", problem));
    }
    if !has_id && settings.id == IdForm::Own {
        return Err(field(
            "document._id",
            "missing, and `id: own` asks for it; add the field, or leave `id` out",
        ));
    }
    let Some(stamp) = &settings.stamp else { return Ok(()) };
    let path = format!("document.{stamp}");
    if fields.contains_key(stamp) {
        return Err(field(
            &path,
            "the stamp has this name; rename the field or the stamp, or turn the stamp off",
        ));
    }
    if stamp.is_empty() || stamp == "_id" || stamp.starts_with('$') || stamp.contains('\0') {
        return Err(field(&path, "invalid name for a stamp; use letters, digits and underscores"));
    }
    Ok(())
}

fn field(path: &str, problem: &str) -> Error {
    Error::Field { path: path.to_owned(), problem: problem.to_owned() }
}

impl Parser<'_> {
    /// The settings of the program.
    pub(crate) fn settings(&self) -> &Settings {
        self.settings
    }

    /// The fields that a `$same` can name here, nearest document first.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = &(String, Rc<Node>)> + Clone {
        self.levels.iter().rev().flatten()
    }

    /// Notes a `$pad`. Returns whether it is allowed here: at the top level, and once per template.
    pub(crate) fn claim_pad(&mut self, path: &str) -> bool {
        self.nesting == 1 && self.pad.replace(path.to_owned()).is_none()
    }

    /// The item of a generated array.
    pub(crate) fn item(&mut self, args: &Args<'_>) -> Result<Rc<Node>, Error> {
        self.arrays += 1;
        let node = self.value(args);
        self.arrays -= 1;
        node
    }

    /// Parses any value.
    pub(crate) fn value(&mut self, args: &Args<'_>) -> Result<Rc<Node>, Error> {
        self.nesting += 1;
        let node = if self.nesting > DEPTH_MAX { Err(too_deep(args)) } else { self.any(args) };
        self.nesting -= 1;
        node.and_then(
            |node| if self.nesting + node.height > DEPTH_MAX { Err(too_deep(args)) } else { Ok(node) },
        )
    }

    fn any(&mut self, args: &Args<'_>) -> Result<Rc<Node>, Error> {
        let shape = match args.value() {
            Value::Array(items) => Shape::Array(self.array(args.path(), items)?),
            Value::Object(map) if map.keys().any(|key| key.starts_with('$')) => {
                return self.dollar(args, map);
            }
            Value::Object(map) => Shape::Document(self.document(args.path(), map)?),
            _ => extended::constant(args)?,
        };
        Ok(self.node(shape, args.path()))
    }

    fn node(&self, shape: Shape, path: &str) -> Rc<Node> {
        Node::new(shape, salt(path), self.arrays)
    }

    fn document(&mut self, path: &str, map: &Map<String, Value>) -> Result<FieldNodes, Error> {
        self.levels.push(Vec::with_capacity(map.len()));
        for (name, value) in map {
            let args = Args::new(format!("{path}.{name}"), value);
            if name.contains('\0') {
                return Err(field(
                    &args.path().replace('\0', "\\0"),
                    "a field's name cannot hold a zero byte",
                ));
            }
            let node = self.value(&args)?;
            if let Some(fields) = self.levels.last_mut() {
                fields.push((name.clone(), node));
            }
        }
        Ok(self.levels.pop().unwrap_or_default())
    }

    fn array(&mut self, path: &str, items: &[Value]) -> Result<Vec<Rc<Node>>, Error> {
        let item = |(index, value)| {
            let args = Args::new(format!("{path}[{index}]"), value);
            let node = self.value(&args)?;
            match node.shape {
                Shape::Optional { .. } => Err(Error::Misplaced {
                    path: args.path().to_owned(),
                    problem: "an item cannot be $optional; use $array with a length of {min, max}".to_owned(),
                }),
                _ => Ok(node),
            }
        };
        items.iter().enumerate().map(item).collect()
    }

    /// An object with a key that begins with `$`: Extended JSON, a database reference, or a generator.
    fn dollar(&mut self, args: &Args<'_>, map: &Map<String, Value>) -> Result<Rc<Node>, Error> {
        if extended::is_constant(map) {
            return Ok(self.node(extended::constant(args)?, args.path()));
        }
        if map.contains_key("$ref") && map.contains_key("$id") {
            let fields = self.document(args.path(), map)?;
            return Ok(self.node(Shape::Document(fields), args.path()));
        }
        let name = map.keys().find(|key| key.starts_with('$')).map_or("", String::as_str);
        let Some((_, parse)) = self.generators.iter().find(|(known, _)| *known == name) else {
            return self.operators(args, map, name);
        };
        if map.len() > 1 {
            return Err(Error::NotAlone { path: args.path().to_owned(), name: name.to_owned() });
        }
        let inner = Args::new(format!("{}.{name}", args.path()), &map[name]);
        if name == "$same" {
            return same::parse(self, &inner);
        }
        let shape = parse(self, &inner)?;
        Ok(self.node(shape, args.path()))
    }

    /// Parses a document of MongoDB's operators, where they are allowed.
    fn operators(
        &mut self,
        args: &Args<'_>,
        map: &Map<String, Value>,
        name: &str,
    ) -> Result<Rc<Node>, Error> {
        if self.dollars == Dollars::Refused {
            return Err(self.unknown(args.path(), name));
        }
        let fields = self.document(args.path(), map)?;
        Ok(self.node(Shape::Document(fields), args.path()))
    }

    /// The error for an unknown generator.
    fn unknown(&self, path: &str, name: &str) -> Error {
        let known: Vec<&str> =
            self.generators.iter().map(|(known, _)| *known).chain(extended::keys()).collect();
        let near = suggestion(name, &known);
        let generators: Vec<&str> = self.generators.iter().map(|(known, _)| *known).collect();
        let remedy =
            if near.starts_with("did") { near } else { format!("known here: {}", generators.join(", ")) };
        Error::UnknownGenerator { path: path.to_owned(), name: name.to_owned(), remedy }
    }
}

fn too_deep(args: &Args<'_>) -> Error {
    let path: String = args.path().chars().take(80).collect();
    Error::TooDeep { path: format!("{path}...") }
}
