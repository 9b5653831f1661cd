//! Compiles the body of a request.

use std::sync::Arc;

use plimsoll_document::{Program, Template};

use super::template::{self, Settings};
use super::workload::{Workload, WorkloadContext, Workloads};
use super::{BATCH_MAX, BODY_BYTES_MAX, Error};
use crate::json::{self, Stamps};
use crate::scenario::{self, Form, Method, Request};

/// The body of a request.
#[derive(Debug)]
pub(crate) enum Body {
    /// No body.
    None,
    /// A literal text.
    Text(Vec<u8>),
    /// A document as JSON.
    Document(Program),
    /// Several documents.
    Batch(Program, Form),
    /// The output of a workload.
    Workload(Arc<dyn Workload>),
}

/// Compiles a request's body.
pub(super) fn compile(
    place: &str,
    request: &Request,
    settings: Settings,
    workloads: Workloads<'_>,
) -> Result<Body, Error> {
    let place = format!("{place}.body");
    let Some(body) = &request.body else { return Ok(Body::None) };
    if matches!(request.method, Method::Get | Method::Head) {
        return Err(Error::NoBody(place, request.method.name()));
    }
    let (body, documents) = match body {
        scenario::Body::Text(text) => (Body::Text(text.clone().into_bytes()), 1),
        scenario::Body::Document(document) => {
            (Body::Document(template::compile(&place, document, settings)?), 1)
        }
        scenario::Body::Batch(batch) => {
            if batch.documents == 0 || batch.documents > BATCH_MAX {
                return Err(Error::Batch { place, documents: batch.documents });
            }
            let inner = format!("{place}.batch.document");
            (Body::Batch(template::compile(&inner, &batch.document, settings)?, batch.form), batch.documents)
        }
        scenario::Body::Workload(typed) => {
            let made = workloads(typed, WorkloadContext { seed: settings.seed, start_ms: settings.start_ms });
            let refuse = |problem| Error::Workload { place: format!("{place}.workload"), problem };
            (Body::Workload(made.map_err(refuse)?), 1)
        }
    };
    let bytes = body.bytes_of_one().saturating_mul(documents as usize);
    if bytes > BODY_BYTES_MAX { Err(Error::BodyTooLarge { place, bytes }) } else { Ok(body) }
}

/// The template of a request's documents, if it has one.
pub(super) const fn document(request: &Request) -> Option<&Template> {
    match &request.body {
        Some(scenario::Body::Document(document)) => Some(document),
        Some(scenario::Body::Batch(batch)) => Some(&batch.document),
        _ => None,
    }
}

impl Body {
    /// The default content type.
    pub(crate) const fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Text(_) => Some("text/plain; charset=utf-8"),
            Self::Document(_) | Self::Batch(_, Form::Array) | Self::Workload(_) => Some("application/json"),
            Self::Batch(_, Form::Ndjson) => Some("application/x-ndjson"),
        }
    }

    /// The size of the first document.
    fn bytes_of_one(&self) -> usize {
        let mut out = Vec::new();
        match self {
            Self::None => 0,
            Self::Text(text) => text.len(),
            Self::Document(_) | Self::Batch(..) | Self::Workload(_) => {
                self.render(0, 1, &mut Vec::new(), &mut out, &mut Vec::new());
                out.len()
            }
        }
    }

    /// Appends the body of `count` documents, starting at number `first`; `bson` is a work buffer.
    pub(crate) fn render(
        &self,
        first: u64,
        count: u64,
        bson: &mut Vec<u8>,
        out: &mut Vec<u8>,
        stamps: &mut Stamps,
    ) {
        match self {
            Self::None => {}
            Self::Text(text) => out.extend_from_slice(text),
            Self::Document(program) => one(program, first, bson, out, stamps),
            Self::Workload(workload) => workload.body(first, out),
            Self::Batch(program, form) => {
                let (open, between, close) = match form {
                    Form::Array => (&b"["[..], &b","[..], &b"]"[..]),
                    Form::Ndjson => (&b""[..], &b"\n"[..], &b"\n"[..]),
                };
                out.extend_from_slice(open);
                for number in first..first + count {
                    if number > first {
                        out.extend_from_slice(between);
                    }
                    one(program, number, bson, out, stamps);
                }
                out.extend_from_slice(close);
            }
        }
    }
}

fn one(program: &Program, number: u64, bson: &mut Vec<u8>, out: &mut Vec<u8>, stamps: &mut Stamps) {
    bson.clear();
    template::encode(program, number, bson);
    json::document(bson, out, stamps);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload whose body is the request's number times a setting of the scenario.
    #[derive(Debug)]
    struct Numbered(u64);

    impl Workload for Numbered {
        fn body(&self, number: u64, out: &mut Vec<u8>) {
            out.extend_from_slice((number * self.0).to_string().as_bytes());
        }
    }

    fn numbered(
        typed: &serde_json::Map<String, serde_json::Value>,
        _: WorkloadContext,
    ) -> Result<Arc<dyn Workload>, String> {
        Ok(Arc::new(Numbered(typed["times"].as_u64().unwrap())))
    }

    fn check(yaml: &str, first: u64, count: u64, expected: &str) {
        let request: Request = serde_saphyr::from_str(yaml).unwrap();
        let body = compile("op", &request, Settings { seed: 1, start_ms: 0 }, &numbered).unwrap();
        let mut out = Vec::new();
        body.render(first, count, &mut Vec::new(), &mut out, &mut Vec::new());
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn documents_form_an_array_or_lines() {
        check("post: /\nbody: {n: {$number: {}}}", 4, 1, r#"{"n":4}"#);
        check(
            "post: /\nbody: {batch: {documents: 9, document: {n: {$number: {}}}}}",
            4,
            2,
            r#"[{"n":4},{"n":5}]"#,
        );
        let lines = "post: /\nbody: {batch: {documents: 9, document: {n: {$number: {}}}, form: ndjson}}";
        check(lines, 4, 2, "{\"n\":4}\n{\"n\":5}\n");
        check("put: /\nbody: hello", 0, 1, "hello");
        check("post: /\nbody: {workload: {times: 7}}", 6, 1, "42");
        check("delete: /", 0, 1, "");
    }
}
