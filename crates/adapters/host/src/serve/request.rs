//! Decodes one command from an OP_MSG, or from the OP_QUERY with which drivers greet an unknown server.

use std::fmt;

use bson::RawDocument;
use bson::raw::RawBsonRef;
use plimsoll_wire::Malformed;
use plimsoll_wire::frame::{self, Message};

/// The opcode of OP_QUERY, obsolete except for the greeting.
const OP_QUERY: i32 = 2004;

/// The framing of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// An OP_MSG.
    Message,
    /// An OP_REPLY.
    Legacy,
    /// No answer: the sender wants none.
    Silent,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) id: i32,
    pub(crate) framing: Framing,
    /// The command's name: the key of the body's first element.
    pub(crate) name: &'a str,
    pub(crate) body: &'a RawDocument,
    /// The whole message.
    pub(crate) bytes: &'a [u8],
    /// The number of the connection that sent it.
    pub(crate) connection: u64,
    message: Option<Message<'a>>,
}

impl<'a> Request<'a> {
    /// Reads one whole message.
    ///
    /// # Errors
    /// The message is neither an OP_MSG nor an OP_QUERY with a command.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if int32(bytes, 12) == Some(OP_QUERY) {
            return Request::parse_legacy(bytes);
        }
        let message = Message::parse(bytes)?;
        let framing =
            if message.flags & frame::MORE_TO_COME == 0 { Framing::Message } else { Framing::Silent };
        let (id, body) = (message.request_id, message.body);
        Ok(Request { id, framing, name: name(body)?, body, bytes, connection: 0, message: Some(message) })
    }

    /// Parses the header, 32 flag bits, the collection's name, two numbers, and the command.
    fn parse_legacy(bytes: &'a [u8]) -> Result<Self, Malformed> {
        const SHORT: Malformed = Malformed("an OP_QUERY is cut short");
        let rest = bytes.get(frame::HEADER_LEN + 4..).ok_or(SHORT)?;
        let end = rest.iter().position(|&byte| byte == 0).ok_or(SHORT)?;
        let query = rest.get(end + 1 + 8..).ok_or(SHORT)?;
        let len = int32(query, 0).and_then(|len| usize::try_from(len).ok()).ok_or(SHORT)?;
        let body = RawDocument::from_bytes(query.get(..len).ok_or(SHORT)?).map_err(|_| SHORT)?;
        let id = int32(bytes, 4).ok_or(SHORT)?;
        let name = name(body)?;
        Ok(Request { id, framing: Framing::Legacy, name, body, bytes, connection: 0, message: None })
    }

    /// The number of documents under `field`.
    pub(crate) fn count(&self, field: &'static str) -> usize {
        self.documents(field).count()
    }

    /// The documents under `field`: sections of kind 1 by that name, or an array in the body.
    pub(crate) fn documents(&self, field: &'static str) -> impl Iterator<Item = &'a RawDocument> + use<'a> {
        let sequences = self.message.into_iter().flat_map(|message| message.sequences());
        let named = sequences.filter(move |sequence| sequence.name == field.as_bytes());
        let sections = named.flat_map(|sequence| sequence.iter());
        let array = self.body.get(field).ok().flatten().and_then(RawBsonRef::as_array);
        let listed = array.into_iter().flatten().filter_map(|value| value.ok()?.as_document());
        sections.chain(listed)
    }

    /// The namespace; the command's value is the collection. Missing parts are empty.
    pub(crate) fn namespace(&self) -> Namespace<'a> {
        let text = |field: &str| self.body.get_str(field).unwrap_or_default();
        Namespace { database: text("$db"), collection: text(self.name) }
    }
}

/// A database and a collection in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace<'a> {
    pub(crate) database: &'a str,
    pub(crate) collection: &'a str,
}

impl fmt::Display for Namespace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

fn name(body: &RawDocument) -> Result<&str, Malformed> {
    match body.iter().next() {
        Some(Ok((name, _))) => Ok(name.as_str()),
        _ => Err(Malformed("a command has no name")),
    }
}

fn int32(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|chunk| i32::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;
    use proptest::prelude::*;

    /// An OP_MSG with a body and one section of kind 1.
    fn message(flags: u32, body: &RawDocument, name: &str, documents: &[&RawDocument]) -> Vec<u8> {
        let mut out = Vec::new();
        let at = frame::start(&mut out, 9, 0, flags);
        out.extend_from_slice(body.as_bytes());
        let len: usize = documents.iter().map(|document| document.as_bytes().len()).sum();
        out.push(1);
        out.extend_from_slice(&i32::try_from(4 + name.len() + 1 + len).unwrap().to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        documents.iter().for_each(|document| out.extend_from_slice(document.as_bytes()));
        frame::finish(&mut out, at);
        out
    }

    fn legacy(body: &RawDocument) -> Vec<u8> {
        let mut out = Vec::new();
        [0, 9, 0, OP_QUERY, 0].iter().for_each(|number: &i32| out.extend_from_slice(&number.to_le_bytes()));
        out.extend_from_slice(b"admin.$cmd\0\0\0\0\0\xff\xff\xff\xff");
        out.extend_from_slice(body.as_bytes());
        frame::finish(&mut out, 0);
        out
    }

    #[test]
    fn documents_are_counted_in_a_section_and_in_an_array() {
        let document = rawdoc! {"x": 1};
        let bytes = message(0, &rawdoc! {"insert": "c", "$db": "d"}, "documents", &[&document, &document]);
        let request = Request::parse(&bytes).unwrap();
        assert_eq!((request.name, request.count("documents"), request.count("updates")), ("insert", 2, 0));
        assert_eq!(request.namespace().to_string(), "d.c");
        let listed = rawdoc! {"insert": "c", "documents": [{"x": 1}, {"x": 2}, {"x": 3}], "$db": "d"};
        let bytes = message(0, &listed, "other", &[]);
        assert_eq!(Request::parse(&bytes).unwrap().count("documents"), 3);
    }

    #[test]
    fn the_flag_more_to_come_suppresses_the_answer() {
        let bytes = message(frame::MORE_TO_COME, &rawdoc! {"ping": 1}, "x", &[]);
        assert_eq!(Request::parse(&bytes).unwrap().framing, Framing::Silent);
    }

    #[test]
    fn the_old_greeting_is_understood() {
        let bytes = legacy(&rawdoc! {"isMaster": 1});
        let request = Request::parse(&bytes).unwrap();
        assert_eq!((request.id, request.framing, request.name), (9, Framing::Legacy, "isMaster"));
    }

    #[test]
    fn a_greeting_cut_at_any_byte_is_refused() {
        let bytes = legacy(&rawdoc! {"isMaster": 1});
        (0..bytes.len()).for_each(|len| assert!(Request::parse(&bytes[..len]).is_err(), "cut at {len}"));
    }

    proptest! {
        #[test]
        fn a_message_with_any_byte_changed_never_panics(at in 0_usize..80, byte in any::<u8>()) {
            let listed = rawdoc! {"insert": "c", "documents": [{"x": 1}]};
            for mut bytes in [message(0, &listed, "documents", &[&rawdoc! {"x": 1}]), legacy(&listed)] {
                let at = at % bytes.len();
                bytes[at] = byte;
                if let Ok(request) = Request::parse(&bytes) {
                    prop_assert!(request.count("documents") <= bytes.len());
                    let _ = request.namespace().to_string();
                }
            }
        }
    }
}
