//! Sends questions to a server under time limits. A refusal counts as an answer.

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use plimsoll_measure::clock::{self, Instant, MILLISECOND_NS};
use plimsoll_wire::{Connection, Error as WireError, ServerError};

use crate::cursor::{batch, collection_of, more};
use crate::error::is_missing_namespace;
use crate::read;

/// The server's time limit for a question that needs no scan, in milliseconds.
const QUESTION_MS: u64 = 10_000;
/// The server's time limit for one scan, in milliseconds.
const SCAN_MS: u64 = 5_000;
/// The time limit of all scans together, in nanoseconds.
const SCANS_NS: u64 = 60_000 * MILLISECOND_NS;
/// MongoDB's error code MaxTimeMSExpired.
const TIME_LIMIT: i32 = 50;
/// The number of characters kept of a server's message.
const WORDS_MAX: usize = 160;

/// An answer, or the reason why the server gave none.
pub(super) type Answer<T = RawDocumentBuf> = Result<T, Refusal>;

/// The reason why the server gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    code: i32,
    words: String,
    /// Whether the collection does not exist.
    missing: bool,
}

impl Refusal {
    /// A refusal that the server did not send.
    fn unasked(words: &str) -> Self {
        Self { code: 0, words: words.to_owned(), missing: false }
    }

    fn not_understood() -> Self {
        Self::unasked("the server's answer is malformed")
    }

    /// Whether the collection does not exist.
    pub(super) const fn is_missing(&self) -> bool {
        self.missing
    }

    /// The reason, as the end of a sentence.
    pub(super) fn reason(&self) -> &str {
        if self.code == TIME_LIMIT { "it takes longer than the time limit" } else { &self.words }
    }
}

/// Documents of a cursor, and the reason why they end.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) documents: Vec<RawDocumentBuf>,
    pub(super) end: End,
}

/// The reason why the documents of a cursor end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The cursor returned all documents.
    Complete,
    /// More documents exist than wanted.
    Cut,
    /// The server refused to return more.
    Refused {
        /// The number of documents before the refusal.
        documents: usize,
        refusal: Refusal,
    },
}

impl End {
    /// A note that the list or sample `of` is incomplete, if the server refused to return more.
    pub(super) fn note(&self, of: &str) -> Option<String> {
        let Self::Refused { documents, refusal } = self else { return None };
        let reason = refusal.reason();
        Some(format!("{of} is incomplete: the server returned {documents}, and then refused more: {reason}"))
    }
}

/// The limits of reading a cursor.
#[derive(Clone, Copy, Debug)]
pub(super) struct CursorLimits {
    pub(super) documents: usize,
    pub(super) bytes: usize,
}

/// Asks one server.
#[derive(Debug)]
pub(super) struct Inspector<'a> {
    connection: &'a mut Connection,
    scans_until: Instant,
}

impl<'a> Inspector<'a> {
    pub(super) fn new(connection: &'a mut Connection) -> Self {
        Self { connection, scans_until: clock::now() + SCANS_NS }
    }

    /// An empty command.
    pub(super) async fn ping(&mut self) -> Result<(), WireError> {
        self.connection.ping().await
    }

    /// Asks a question that needs no scan.
    pub(super) async fn ask(&mut self, db: &str, body: Document) -> Result<Answer, WireError> {
        self.send(db, body, QUESTION_MS).await
    }

    /// Asks a question that may scan a whole collection, until the time for scans is used up.
    pub(super) async fn scan(&mut self, db: &str, body: Document) -> Result<Answer, WireError> {
        let left_ms = self.scans_until.since(clock::now()) / MILLISECOND_NS;
        if left_ms == 0 {
            return Ok(Err(Refusal::unasked("there was no time left for scans")));
        }
        self.send(db, body, left_ms.min(SCAN_MS)).await
    }

    async fn send(&mut self, db: &str, mut body: Document, ms: u64) -> Result<Answer, WireError> {
        body.insert("maxTimeMS", i32::try_from(ms).unwrap_or(i32::MAX));
        if self.connection.hello().is_secondary {
            body.insert("$readPreference", doc! {"mode": "primaryPreferred"});
        }
        self.exchange(db, &body).await
    }

    async fn exchange(&mut self, db: &str, body: &Document) -> Result<Answer, WireError> {
        match self.connection.command(db, &RawDocumentBuf::try_from(body)?).await {
            Ok(reply) => Ok(Ok(reply)),
            Err(WireError::Server(error)) => Ok(Err(refusal(&error))),
            Err(error) => Err(error),
        }
    }

    /// Reads all documents of the cursor in an answer, batch after batch.
    pub(super) async fn rest(
        &mut self,
        db: &str,
        answer: Answer,
        most: CursorLimits,
    ) -> Result<Answer<Found>, WireError> {
        let mut documents = Vec::new();
        let read = self.each(db, answer, most, &mut |document| documents.push(document)).await?;
        Ok(read.map(|end| Found { documents, end }))
    }

    /// Hands the documents of the cursor in an answer to `visit`, batch after batch. Returns the reason why they end.
    pub(super) async fn each(
        &mut self,
        db: &str,
        answer: Answer,
        most: CursorLimits,
        visit: &mut (dyn FnMut(RawDocumentBuf) + Send),
    ) -> Result<Answer<End>, WireError> {
        let mut reply = match answer {
            Ok(reply) => reply,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let collection = collection_of(&reply, db);
        let (mut documents, mut bytes) = (0, 0);
        loop {
            let Some((batch, cursor)) = batch(&reply) else { return Ok(Err(Refusal::not_understood())) };
            bytes += batch.iter().map(|document| document.as_bytes().len()).sum::<usize>();
            documents += batch.len();
            batch.into_iter().for_each(&mut *visit);
            if cursor == 0 {
                return Ok(Ok(End::Complete));
            }
            if documents >= most.documents || bytes >= most.bytes {
                let kill = doc! {"killCursors": collection, "cursors": [cursor]};
                self.exchange(db, &kill).await?.ok();
                return Ok(Ok(End::Cut));
            }
            match self.exchange(db, &more(cursor, &collection)).await? {
                Ok(next) => reply = next,
                // The documents read so far are kept.
                Err(refusal) => return Ok(Ok(End::Refused { documents, refusal })),
            }
        }
    }
}

fn refusal(error: &ServerError) -> Refusal {
    let words = error.message.chars().take(WORDS_MAX).collect();
    Refusal { code: error.code, words, missing: is_missing_namespace(error) }
}

/// The first document of a reply.
pub(super) fn first(reply: &RawDocument) -> Option<RawDocumentBuf> {
    batch(reply)?.0.into_iter().next()
}

/// The count `n` of the group of all documents. An empty collection has no group.
pub(super) fn counted(reply: &RawDocument) -> Answer<u64> {
    let (groups, _) = batch(reply).ok_or_else(Refusal::not_understood)?;
    let Some(group) = groups.first() else { return Ok(0) };
    read::count(group, "n").ok_or_else(Refusal::not_understood)
}
