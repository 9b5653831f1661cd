//! Encodes the settings of a write command.

use bson::Document;
use plimsoll_element::append;

/// The members that must apply a write before the server acknowledges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum W {
    /// This number of members; 0 requests no acknowledgement.
    Number(u32),
    /// The majority of the members.
    Majority,
    /// The members of the tag set with this name.
    Tag(String),
}

/// The condition for the acknowledgement of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteConcern {
    /// The members that must apply the write.
    pub w: W,
    /// Whether the write must be in the journal; `None` uses the server's default.
    pub j: Option<bool>,
    /// The server's time limit for `w` in milliseconds; `None` waits without limit.
    pub timeout_ms: Option<u32>,
}

impl WriteConcern {
    /// False for `w: 0`: the server sends no reply.
    pub fn is_acknowledged(&self) -> bool {
        self.w != W::Number(0)
    }

    /// Appends the element `writeConcern` to the open document.
    pub fn append(&self, out: &mut Vec<u8>) {
        append::nested(out, "writeConcern", |out| {
            match &self.w {
                W::Number(number) => append::int32(out, "w", i32::try_from(*number).unwrap_or(i32::MAX)),
                W::Majority => append::string(out, "w", "majority"),
                W::Tag(tag) => append::string(out, "w", tag),
            }
            if let Some(j) = self.j {
                append::boolean(out, "j", j);
            }
            if let Some(timeout_ms) = self.timeout_ms {
                append::int64(out, "wtimeout", i64::from(timeout_ms));
            }
        });
    }
}

/// A write command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// Each document pushed is stored.
    Insert,
    /// Each document pushed is a statement `{q: …, u: …, upsert: …, multi: …}`.
    Update,
    /// Each document pushed is a statement `{q: …, limit: 0 or 1}`.
    Delete,
}

impl WriteKind {
    /// The command's name.
    pub fn command(self) -> &'static str {
        match self {
            WriteKind::Insert => "insert",
            WriteKind::Update => "update",
            WriteKind::Delete => "delete",
        }
    }

    /// The name of the section that holds the documents, with its NUL.
    pub(crate) fn sequence(self) -> &'static [u8] {
        match self {
            WriteKind::Insert => b"documents\0",
            WriteKind::Update => b"updates\0",
            WriteKind::Delete => b"deletes\0",
        }
    }
}

/// The settings that the frames of a batch share.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteSpec {
    /// The database.
    pub db: String,
    /// The collection.
    pub collection: String,
    /// The command.
    pub kind: WriteKind,
    /// Whether the server stops at the first failure.
    pub ordered: bool,
    /// The condition for the acknowledgement; `None` uses the server's default.
    pub write_concern: Option<WriteConcern>,
    /// The server's own time limit for a frame, in milliseconds (`maxTimeMS`).
    pub max_time_ms: Option<u32>,
    /// Skips the collection's validator.
    pub bypass_document_validation: bool,
    /// The session whose transaction numbers make the command a retryable write; `None` sends no number. See
    /// [`crate::WriteBatch::clear`].
    pub session: Option<[u8; 16]>,
    /// More fields of the command, such as `let` or `comment`.
    pub extra: Document,
}

impl WriteSpec {
    /// An ordered command with the server's defaults.
    pub fn new(kind: WriteKind, db: impl Into<String>, collection: impl Into<String>) -> Self {
        WriteSpec {
            db: db.into(),
            collection: collection.into(),
            kind,
            ordered: true,
            write_concern: None,
            max_time_ms: None,
            bypass_document_validation: false,
            session: None,
            extra: Document::new(),
        }
    }

    /// Whether the server answers.
    pub fn is_acknowledged(&self) -> bool {
        self.write_concern.as_ref().is_none_or(WriteConcern::is_acknowledged)
    }

    /// Appends the body of the command.
    pub(crate) fn append_body(&self, out: &mut Vec<u8>) -> Result<(), bson::error::Error> {
        let at = append::open(out);
        append::string(out, self.kind.command(), &self.collection);
        append::boolean(out, "ordered", self.ordered);
        if let Some(write_concern) = &self.write_concern {
            write_concern.append(out);
        }
        if let Some(max_time_ms) = self.max_time_ms {
            append::int64(out, "maxTimeMS", i64::from(max_time_ms));
        }
        if self.bypass_document_validation {
            append::boolean(out, "bypassDocumentValidation", true);
        }
        if let Some(session) = &self.session {
            append::nested(out, "lsid", |out| append::uuid(out, "id", session));
            append::int64(out, "txnNumber", 0);
        }
        append::elements(out, &self.extra.to_vec()?);
        append::string(out, "$db", &self.db);
        append::close(out, at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn the_body_holds_every_setting_of_the_spec() {
        let mut spec = WriteSpec::new(WriteKind::Update, "d", "c");
        spec.ordered = false;
        spec.write_concern = Some(WriteConcern { w: W::Majority, j: Some(true), timeout_ms: Some(9) });
        spec.max_time_ms = Some(7);
        spec.bypass_document_validation = true;
        spec.extra = doc! {"comment": "x"};
        let mut out = Vec::new();
        spec.append_body(&mut out).unwrap();
        let expected = doc! {
            "update": "c", "ordered": false, "writeConcern": {"w": "majority", "j": true, "wtimeout": 9_i64},
            "maxTimeMS": 7_i64, "bypassDocumentValidation": true, "comment": "x", "$db": "d",
        };
        assert_eq!(Document::from_reader(out.as_slice()).unwrap(), expected);
    }

    #[test]
    fn only_w_0_is_unacknowledged() {
        let spec = |w| WriteSpec {
            write_concern: Some(WriteConcern { w, j: None, timeout_ms: None }),
            ..WriteSpec::new(WriteKind::Insert, "d", "c")
        };
        assert!(!spec(W::Number(0)).is_acknowledged());
        assert!(spec(W::Number(1)).is_acknowledged() && spec(W::Tag("dc".into())).is_acknowledged());
        assert!(WriteSpec::new(WriteKind::Insert, "d", "c").is_acknowledged());
    }
}
