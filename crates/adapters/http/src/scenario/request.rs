//! Defines a request, as typed: `{post: /api/orders, body: {…}, check: {status: 201}}`.

use std::collections::BTreeMap;

use plimsoll_document::Template;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Body, Check};

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Reads only the head of the answer.
    Head,
    /// Submits.
    Post,
    /// Stores.
    Put,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
    /// Asks for the allowed methods.
    Options,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 7] =
        [Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete, Self::Options];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}

/// A request, as typed. The client sends it once and reads one answer: it follows no redirects, keeps no cookies, and requests no
/// compression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Typed", into = "Typed")]
#[schemars(with = "Typed")]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path, perhaps with a query; `with` fills its `{name}`s.
    pub path: String,
    /// The values of the placeholders.
    pub with: Option<Template>,
    /// Headers of this request in addition to the common headers; values may hold placeholders.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Option<Body>,
    /// The checks of the answer.
    pub check: Check,
    /// Labels for selecting results.
    pub tags: BTreeMap<String, String>,
    /// The request that reads a document of this request back.
    pub read_back: Option<Box<Request>>,
}

impl Request {
    /// A request with defaults for everything else.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            with: None,
            headers: BTreeMap::new(),
            body: None,
            check: Check::default(),
            tags: BTreeMap::new(),
            read_back: None,
        }
    }

    /// The number of documents in one request, or 1 for a request without documents: the unit of the rate.
    pub fn documents(&self) -> u32 {
        match &self.body {
            Some(Body::Batch(batch)) => batch.documents,
            _ => 1,
        }
    }

    /// Whether its documents are read back after the load: by its own request, or because its workload has the setting `read_back: true`.
    pub fn reads_back(&self) -> bool {
        let wants = |settings: &serde_json::Value| settings["read_back"] == true;
        let by_workload = matches!(&self.body, Some(Body::Workload(typed)) if typed.values().any(wants));
        by_workload || self.read_back.is_some()
    }

    /// Whether a template or a workload generates its body: such documents are numbered, and a phase may limit them.
    pub const fn makes(&self) -> bool {
        matches!(self.body, Some(Body::Document(_) | Body::Batch(_) | Body::Workload(_)))
    }
}

/// One request, as typed. Give it one of `get`, `head`, `post`, `put`, `patch`, `delete` and `options`, with the path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Request")]
struct Typed {
    /// GET: the path, perhaps with a query; `with` fills its `{name}`s.
    #[serde(skip_serializing_if = "Option::is_none")]
    get: Option<String>,
    /// HEAD: the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    /// POST: the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    post: Option<String>,
    /// PUT: the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    put: Option<String>,
    /// PATCH: the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    /// DELETE: the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    delete: Option<String>,
    /// OPTIONS: the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<String>,
    /// A document whose fields fill the placeholders of path and headers; its values may be generators.
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<Template>,
    /// Headers of this request in addition to the common headers; values may hold placeholders.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    /// The body: a document whose values may be generators, `{batch: {documents: 100, document: {…}}}`,
    /// `{workload: {NAME: {…}}}`, or a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Body>,
    /// The checks of the answer; by default a status from 200 to 399.
    #[serde(skip_serializing_if = "Check::is_default")]
    check: Check,
    /// Labels for selecting results.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    /// The GET or HEAD that reads one document of this request back after the load: `{get: /orders/{id}}`. Its placeholders are the
    /// fields of `with`; without `with`, the fields of the document. Every acknowledged document must answer and pass its `check`; 404 and
    /// 410 say that it is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_back: Option<Box<Request>>,
}

impl Typed {
    fn paths(&mut self) -> [(Method, &mut Option<String>); 7] {
        [
            (Method::Get, &mut self.get),
            (Method::Head, &mut self.head),
            (Method::Post, &mut self.post),
            (Method::Put, &mut self.put),
            (Method::Patch, &mut self.patch),
            (Method::Delete, &mut self.delete),
            (Method::Options, &mut self.options),
        ]
    }
}

impl TryFrom<Typed> for Request {
    type Error = String;

    fn try_from(mut typed: Typed) -> Result<Self, String> {
        let mut given = typed.paths().into_iter().filter_map(|(method, path)| Some((method, path.take()?)));
        let first = given.next();
        let (Some((method, path)), None) = (first, given.next()) else {
            return Err("a request has one method: write one of get, head, post, put, patch, delete and options with its \
                        path, for example `get: /orders/{id}`"
                .to_owned());
        };
        drop(given);
        let Typed { with, headers, body, check, tags, read_back, .. } = typed;
        Ok(Self { method, path, with, headers, body, check, tags, read_back })
    }
}

impl From<Request> for Typed {
    fn from(request: Request) -> Self {
        let Request { method, path, with, headers, body, check, tags, read_back } = request;
        let mut typed = Self { with, headers, body, check, tags, read_back, ..Self::default() };
        if let Some((_, place)) = typed.paths().into_iter().find(|(known, _)| *known == method) {
            *place = Some(path);
        }
        typed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str) -> Result<Request, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn every_method_is_read_with_its_path_and_written_back_unchanged() {
        for method in Method::ALL {
            let request = check(&format!("{}: /a/{{b}}?c={{d}}", method.name().to_lowercase())).unwrap();
            assert_eq!((request.method, request.path.as_str()), (method, "/a/{b}?c={d}"));
            let json = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&json).unwrap(), request);
        }
    }

    #[test]
    fn a_request_without_a_method_or_with_two_is_refused_with_an_example() {
        for yaml in ["headers: {a: b}", "get: /a\npost: /b"] {
            assert!(check(yaml).unwrap_err().contains("get: /orders/{id}"), "{yaml}");
        }
        assert!(check("get: /a\nurl: /b").unwrap_err().contains("url"));
    }

    #[test]
    fn only_a_generated_body_has_documents() {
        for (yaml, documents, makes) in [
            ("get: /a", 1, false),
            ("post: /a\nbody: text", 1, false),
            ("post: /a\nbody: {n: 1}", 1, true),
            ("post: /a\nbody: {batch: {documents: 100, document: {n: 1}}}", 100, true),
            ("post: /a\nbody: {workload: {iot: {trucks: 4}}}", 1, true),
        ] {
            let request = check(yaml).unwrap();
            assert_eq!((request.documents(), request.makes()), (documents, makes), "{yaml}");
        }
    }
}
