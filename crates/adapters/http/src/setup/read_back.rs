//! Decides which values fill the placeholders of a request that reads a document back.

use plimsoll_document::Template;

use crate::scenario::{Body, Method, Request};

use super::Error;

/// Checks that no operation removes the documents that others read back.
///
/// # Errors
/// When an operation is a `delete`, and another one has a `read_back`.
pub(super) fn check(requests: &[(String, Request)]) -> Result<(), Error> {
    let removes = requests.iter().any(|(_, request)| request.method == Method::Delete);
    match requests.iter().find(|(_, request)| request.reads_back()) {
        Some((name, _)) if removes => Err(Error::ReadBack {
            place: format!("{name}.request.read_back"),
            reason: "an operation with `delete` may remove the documents, which would count as lost: leave one of both out",
        }),
        _ => Ok(()),
    }
}

/// The template that fills the placeholders: the request's `with`, or else its document.
///
/// # Errors
/// The reason why this `read_back` cannot read documents of the request, and the remedy.
pub(super) fn keys<'a>(request: &'a Request, read_back: &Request) -> Result<&'a Template, &'static str> {
    if !matches!(read_back.method, Method::Get | Method::Head) {
        return Err("it must not change anything: write get or head");
    }
    if read_back.read_back.is_some() {
        return Err("it is not read back itself: leave its `read_back` out");
    }
    if read_back.with.is_some() {
        return Err("its placeholders are the fields of the request it reads back: leave `with` out");
    }
    match (&request.body, &request.with) {
        (Some(Body::Document(_)), Some(with)) => Ok(with),
        (Some(Body::Document(document)), None) => Ok(document),
        (Some(Body::Batch(batch)), _) => Ok(&batch.document),
        _ => Err(
            "only a request whose body is a document or a batch of documents can be read back: leave `read_back` out",
        ),
    }
}
