//! Reads origin, cause and original headers from a dead letter.

use thiserror::Error;

use crate::event::{Cause, CauseClass, header};

/// A header: its name, and its value if any.
pub type Header<'a> = (&'a str, Option<&'a [u8]>);

/// The headers that an event gets as a dead letter.
const OURS: [&str; 7] = [
    header::CAUSE,
    header::STAGE,
    header::MESSAGE,
    header::ATTEMPTS,
    header::TOPIC,
    header::PARTITION,
    header::OFFSET,
];

/// A dead letter as read from its store.
#[derive(Clone, Debug, Default)]
pub struct DeadLetter<'a> {
    /// The time at which the event was appended to its source, in milliseconds since 1970 UTC.
    pub appended_ms: u64,
    /// The event's key.
    pub key: Option<&'a [u8]>,
    /// The event's payload as first read.
    pub payload: Option<&'a [u8]>,
    /// The event's headers, and those of a dead letter.
    pub headers: Vec<Header<'a>>,
}

/// The place of a letter's event in its first source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The topic, the file's path or the namespace.
    pub topic: &'a str,
    /// The event's partition in the topic.
    pub partition: u32,
    /// The event's offset in the partition.
    pub offset: u64,
    /// The cause, if the letter holds only a part of its event and must be rejected again.
    pub incomplete: Option<Cause>,
}

/// A record that is not a dead letter.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("is not a dead letter: its header `{0}` is missing or invalid")]
pub struct NotADeadLetter(&'static str);

impl<'a> DeadLetter<'a> {
    /// The origin of the event, and its original headers. The last of several headers of one name belongs to the letter: an
    /// event may have been a dead letter before.
    ///
    /// # Errors
    ///
    /// If a header of its origin is missing or invalid.
    pub fn open(&self) -> Result<(Origin<'a>, Vec<Header<'a>>), NotADeadLetter> {
        let ours = OURS.map(|name| self.headers.iter().rposition(|(known, _)| *known == name));
        let text = |name: &'static str| {
            let at = OURS.iter().position(|known| *known == name).and_then(|at| ours[at]);
            let value = at.and_then(|at| self.headers[at].1).ok_or(NotADeadLetter(name))?;
            std::str::from_utf8(value).map_err(|_| NotADeadLetter(name))
        };
        let origin = Origin {
            topic: text(header::TOPIC)?,
            partition: number(header::PARTITION, text(header::PARTITION)?)?,
            offset: number(header::OFFSET, text(header::OFFSET)?)?,
            incomplete: incomplete(text(header::STAGE)?, text(header::CAUSE)?),
        };
        let own = self.headers.iter().enumerate().filter(|(at, _)| !ours.contains(&Some(*at)));
        Ok((origin, own.map(|(_, named)| *named).collect()))
    }
}

fn number<N: std::str::FromStr>(name: &'static str, text: &str) -> Result<N, NotADeadLetter> {
    text.parse().map_err(|_| NotADeadLetter(name))
}

/// Two kinds of letters hold only a part of their event: a line of a file that was too long, and a record with unreadable
/// headers.
fn incomplete(stage: &str, class: &str) -> Option<Cause> {
    let (stage, class, words) = match (stage, class) {
        ("file", "oversize") => ("file", CauseClass::Oversize, "only its beginning was kept"),
        ("source", "invalid") => ("source", CauseClass::Invalid, "its headers could not be kept"),
        _ => return None,
    };
    Some(Cause::new(stage, class, format!("{words}: read it again from its source")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::Partition;

    fn opened(own: &[Header<'_>], cause: &Cause) -> (String, Option<Cause>, Vec<String>) {
        let ours = cause.headers(&Partition::new("orders", 3), 41);
        let ours = ours.iter().map(|(name, value)| (*name, Some(value.as_bytes())));
        let letter =
            DeadLetter { headers: own.iter().copied().chain(ours).collect(), ..DeadLetter::default() };
        let (origin, own) = letter.open().unwrap();
        let place = format!("{}/{} {}", origin.topic, origin.partition, origin.offset);
        (place, origin.incomplete, own.iter().map(|(name, _)| (*name).to_owned()).collect())
    }

    #[test]
    fn a_letter_holds_the_origin_and_headers_of_its_event() {
        let cause = Cause::new("map", CauseClass::Invalid, "why");
        let theirs: Header<'_> = ("plimsoll-topic", Some(b"an earlier one"));
        let (place, incomplete, own) = opened(&[("a", None), theirs, ("a", Some(b"1"))], &cause);
        assert_eq!((place.as_str(), incomplete), ("orders/3 41", None));
        assert_eq!(own, ["a", "plimsoll-topic", "a"]);
    }

    #[test]
    fn an_incomplete_letter_is_recognised() {
        for (stage, class, whole) in [
            ("file", CauseClass::Oversize, false),
            ("source", CauseClass::Invalid, false),
            ("source", CauseClass::Oversize, true),
            ("filter", CauseClass::Invalid, true),
        ] {
            let (_, incomplete, _) = opened(&[], &Cause::new(stage, class, "why"));
            assert_eq!(incomplete.is_none(), whole, "{stage}");
            // Its cause stays the same when it is rejected again.
            assert!(incomplete.is_none_or(|cause| (cause.stage.as_ref(), cause.class) == (stage, class)));
        }
    }

    #[test]
    fn a_record_without_an_origin_is_not_a_letter() {
        let letter =
            |headers| DeadLetter { headers, ..DeadLetter::default() }.open().unwrap_err().to_string();
        assert!(letter(vec![("a", Some(&b"1"[..]))]).contains("`plimsoll-topic` is missing"));
        let headers: Vec<Header<'_>> = vec![
            (header::TOPIC, Some(b"t")),
            (header::PARTITION, Some(b"first")),
            (header::OFFSET, Some(b"1")),
        ];
        assert!(letter(headers).contains("`plimsoll-partition`"));
    }
}
