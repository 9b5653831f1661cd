//! Reports invalid settings, with their place in the scenario and the fix.

use std::io;

use super::{BATCH_MAX, BODY_BYTES_MAX};

/// An invalid section or request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL cannot be read.
    #[error("http.url: `{url}` {problem}; write for example http://127.0.0.1:8080 or https://api.example/v1")]
    Url {
        /// The typed text.
        url: String,
        /// The fault.
        problem: &'static str,
    },
    /// TLS settings for a service without TLS.
    #[error("http.tls: the URL begins with http, so nothing is encrypted; write https, or leave `tls` out")]
    TlsWithoutHttps,
    /// A CA, although any certificate is accepted.
    #[error("http.tls: `insecure` accepts any certificate, so `ca` has no effect; keep one of them")]
    InsecureAuthority,
    /// The CA file cannot be read.
    #[error("http.tls.ca: {path} cannot be read ({source}); give a PEM file, by its path from the scenario")]
    Authority {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// Invalid TLS settings.
    #[error("http.tls: {0}; give the CA certificates as PEM")]
    Tls(String),
    /// A variable without a value.
    #[error("http.auth: the variable {0} is not set; set it to the secret before the run")]
    Secret(String),
    /// A user or token that no header can carry.
    #[error("http.auth: {0}")]
    Auth(&'static str),
    /// A number out of bounds.
    #[error("http.{name}: out of bounds; {remedy}")]
    Limit {
        /// The name.
        name: &'static str,
        /// The fix.
        remedy: &'static str,
    },
    /// A path that cannot be sent.
    #[error("{place}: `{path}` {problem}")]
    Path {
        /// The place.
        place: String,
        /// The typed text.
        path: String,
        /// The fault and its remedy.
        problem: &'static str,
    },
    /// A placeholder without a value.
    #[error("{place}: {{{name}}} is undefined; {remedy}")]
    Placeholder {
        /// The place.
        place: String,
        /// The name between the braces.
        name: String,
        /// The existing fields.
        remedy: String,
    },
    /// A header that cannot be sent.
    #[error("{place}: header `{name}` {problem}")]
    Header {
        /// The place.
        place: String,
        /// Its name.
        name: String,
        /// The fault and its remedy.
        problem: &'static str,
    },
    /// A template that cannot be compiled.
    #[error("{place}: {fault}")]
    Template {
        /// The place.
        place: String,
        /// The fault.
        fault: plimsoll_document::Error,
    },
    /// An unknown workload, or one with invalid settings.
    #[error("{place}: {problem}")]
    Workload {
        /// The place.
        place: String,
        /// The fault and its remedy.
        problem: String,
    },
    /// A value that JSON cannot represent.
    #[error("{place}: JSON has no {what}; leave it out, or write it as a text")]
    NoJson {
        /// The place.
        place: String,
        /// The value.
        what: String,
    },
    /// Invalid settings of `$now`.
    #[error("{place}: {problem}; write {{$now: {{}}}}, {{$now: {{as: millis}}}} or {{$now: {{plus: -5s}}}}")]
    Now {
        /// The place.
        place: String,
        /// The fault.
        problem: String,
    },
    /// A body for a method without one.
    #[error("{0}: {1} carries no body; use post or put, or move it to the query")]
    NoBody(String, &'static str),
    /// A batch out of bounds.
    #[error("{place}.batch.documents: {documents}; give a number from 1 to {BATCH_MAX}")]
    Batch {
        /// The place.
        place: String,
        /// The invalid number of documents.
        documents: u32,
    },
    /// A `read_back` that cannot verify the documents of its request.
    #[error("{place}: {reason}")]
    ReadBack {
        /// The place.
        place: String,
        /// The reason, and the remedy.
        reason: &'static str,
    },
    /// A body that is too large.
    #[error("{place}: about {bytes} bytes, over the limit of {} MiB; shorten it, or send fewer documents at a time", BODY_BYTES_MAX >> 20)]
    BodyTooLarge {
        /// The place.
        place: String,
        /// Its size.
        bytes: usize,
    },
    /// An invalid status.
    #[error(
        "{place}: `{text}` is not a status; write a number from 100 to 599, a class such as 2xx, or a range such as 200-204"
    )]
    Status {
        /// The place.
        place: String,
        /// The typed text.
        text: String,
    },
    /// An invalid path into JSON.
    #[error(
        "{place}: `{path}` is not a path; write for example items.0.id, or /items/0/id if a key contains a dot"
    )]
    JsonPath {
        /// The place.
        place: String,
        /// The typed text.
        path: String,
    },
    /// A check without a condition, or with an impossible one.
    #[error("{place}: {problem}")]
    Check {
        /// The place.
        place: String,
        /// The fault and its remedy.
        problem: &'static str,
    },
}
