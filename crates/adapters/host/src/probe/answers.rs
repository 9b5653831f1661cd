//! Holds a server's answers to the questions of a probe.

use bson::RawDocumentBuf;

/// The answers of a server; missing answers are absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    pub(crate) build: Option<RawDocumentBuf>,
    pub(crate) hello: Option<RawDocumentBuf>,
    pub(crate) status: Option<RawDocumentBuf>,
    pub(crate) concern: Option<RawDocumentBuf>,
    pub(crate) options: Option<RawDocumentBuf>,
    pub(crate) parameters: Option<RawDocumentBuf>,
}
