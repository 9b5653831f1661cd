//! What cannot be meant, with its place in the scenario and the mend.

use std::io;

use super::{BATCH_MAX, BODY_BYTES_MAX};

/// A section or a request that cannot be meant.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL cannot be read.
    #[error("http.url: `{url}` {problem}; write for example http://127.0.0.1:8080 or https://api.example/v1")]
    Url {
        /// What was typed.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Settings of TLS for a service in the clear.
    #[error("http.tls: the URL begins with http, so nothing is encrypted; write https, or leave `tls` out")]
    TlsWithoutHttps,
    /// An authority, though anybody is believed.
    #[error("http.tls: with `insecure` anybody is believed, so `ca` says nothing; keep one of them")]
    InsecureAuthority,
    /// The authorities' file cannot be read.
    #[error("http.tls.ca: {path} cannot be read ({source}); give a PEM file, by its path from the scenario")]
    Authority {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The settings of TLS cannot be used.
    #[error("http.tls: {0}; give the authorities' certificates as PEM")]
    Tls(String),
    /// A variable that is not set.
    #[error("http.auth: the variable {0} is not set; set it before the run, to the secret")]
    Secret(String),
    /// A user or token that no header can carry.
    #[error("http.auth: {0}")]
    Auth(&'static str),
    /// A number out of bounds.
    #[error("http.{name}: out of bounds; {mend}")]
    Limit {
        /// Which.
        name: &'static str,
        /// What to write.
        mend: &'static str,
    },
    /// A path that cannot be sent.
    #[error("{place}: `{path}` {problem}")]
    Path {
        /// Where.
        place: String,
        /// What was typed.
        path: String,
        /// What is wrong with it, and the mend.
        problem: &'static str,
    },
    /// A placeholder that nothing fills.
    #[error("{place}: nothing fills {{{name}}}; {mend}")]
    Placeholder {
        /// Where.
        place: String,
        /// The name between the braces.
        name: String,
        /// What there is.
        mend: String,
    },
    /// A header that cannot be sent.
    #[error("{place}: header `{name}` {problem}")]
    Header {
        /// Where.
        place: String,
        /// Its name.
        name: String,
        /// What is wrong with it, and the mend.
        problem: &'static str,
    },
    /// A template that cannot be compiled.
    #[error("{place}: {source}")]
    Template {
        /// Where.
        place: String,
        /// What is wrong with it.
        source: plimsoll_document::Error,
    },
    /// A workload that is not known, or cannot be meant.
    #[error("{place}: {problem}")]
    Workload {
        /// Where.
        place: String,
        /// What is wrong with it, and the mend.
        problem: String,
    },
    /// A value that JSON does not have.
    #[error("{place}: JSON has no {what}; leave it out, or write it as a text")]
    NoJson {
        /// Where.
        place: String,
        /// What.
        what: String,
    },
    /// A moment that cannot be meant.
    #[error("{place}: {problem}; write {{$now: {{}}}}, {{$now: {{as: millis}}}} or {{$now: {{plus: -5s}}}}")]
    Now {
        /// Where.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A body where there is none.
    #[error("{0}: {1} carries no body; use post or put, or say it in the query")]
    NoBody(String, &'static str),
    /// A batch out of bounds.
    #[error("{place}.batch.documents: {documents}; give a number from 1 to {BATCH_MAX}")]
    Batch {
        /// Where.
        place: String,
        /// What was typed.
        documents: u32,
    },
    /// A body that is too large.
    #[error("{place}: about {bytes} bytes, over the limit of {} MiB; shorten it, or send fewer documents at a time", BODY_BYTES_MAX >> 20)]
    BodyTooLarge {
        /// Where.
        place: String,
        /// Its size.
        bytes: usize,
    },
    /// A status that is none.
    #[error(
        "{place}: `{text}` is no status; write a number from 100 to 599, a class such as 2xx, or a range such as 200-204"
    )]
    Status {
        /// Where.
        place: String,
        /// What was typed.
        text: String,
    },
    /// A path into JSON that leads nowhere.
    #[error(
        "{place}: `{path}` leads nowhere; write for example items.0.id, or /items/0/id where a key holds a dot"
    )]
    JsonPath {
        /// Where.
        place: String,
        /// What was typed.
        path: String,
    },
    /// A check that checks nothing, or cannot.
    #[error("{place}: {problem}")]
    Check {
        /// Where.
        place: String,
        /// What is wrong with it, and the mend.
        problem: &'static str,
    },
}
