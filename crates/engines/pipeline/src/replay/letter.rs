//! What a dead letter says of the event that it was.

use thiserror::Error;

use crate::event::{Cause, CauseClass, header};

/// A header: its name, and its value if it has one.
pub type Named<'a> = (&'a str, Option<&'a [u8]>);

/// The names of the headers that an event gets as a dead letter.
const OURS: [&str; 7] = [
    header::CAUSE,
    header::STAGE,
    header::MESSAGE,
    header::ATTEMPTS,
    header::TOPIC,
    header::PARTITION,
    header::OFFSET,
];

/// A dead letter as its store gives it back.
#[derive(Clone, Debug, Default)]
pub struct Letter<'a> {
    /// When the event was appended to its source, in milliseconds since 1970 UTC.
    pub appended_ms: u64,
    /// The event's key.
    pub key: Option<&'a [u8]>,
    /// Its payload as it was read first.
    pub payload: Option<&'a [u8]>,
    /// Its own headers, and those of a dead letter.
    pub headers: Vec<Named<'a>>,
}

/// Where the event of a letter was read first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The topic, the file's path or the namespace.
    pub topic: &'a str,
    /// Its partition there.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// Why the letter is not the whole event, if it is not: it must not go on as if it were.
    pub spoiled: Option<Cause>,
}

/// What is no dead letter.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("is no dead letter: its header `{0}` is missing or says nothing that can be read")]
pub struct NoLetter(&'static str);

impl<'a> Letter<'a> {
    /// Where its event was read first, and the headers that it had there. Of several headers of a name the last one is the
    /// letter's: an event may have been a dead letter before.
    ///
    /// # Errors
    ///
    /// If it does not say where it comes from.
    pub fn open(&self) -> Result<(Origin<'a>, Vec<Named<'a>>), NoLetter> {
        let ours = OURS.map(|name| self.headers.iter().rposition(|(known, _)| *known == name));
        let text = |name: &'static str| {
            let at = OURS.iter().position(|known| *known == name).and_then(|at| ours[at]);
            let value = at.and_then(|at| self.headers[at].1).ok_or(NoLetter(name))?;
            std::str::from_utf8(value).map_err(|_| NoLetter(name))
        };
        let origin = Origin {
            topic: text(header::TOPIC)?,
            partition: number(header::PARTITION, text(header::PARTITION)?)?,
            offset: number(header::OFFSET, text(header::OFFSET)?)?,
            spoiled: spoiled(text(header::STAGE)?, text(header::CAUSE)?),
        };
        let own = self.headers.iter().enumerate().filter(|(at, _)| !ours.contains(&Some(*at)));
        Ok((origin, own.map(|(_, named)| *named).collect()))
    }
}

fn number<N: std::str::FromStr>(name: &'static str, text: &str) -> Result<N, NoLetter> {
    text.parse().map_err(|_| NoLetter(name))
}

/// Two kinds of letters hold less than their event: a line of a file that was too long to be read to its end, and a record
/// whose headers could not be read.
fn spoiled(stage: &str, class: &str) -> Option<Cause> {
    let (stage, class, words) = match (stage, class) {
        ("file", "oversize") => ("file", CauseClass::Oversize, "only its beginning was kept"),
        ("source", "invalid") => ("source", CauseClass::Invalid, "its headers could not be kept"),
        _ => return None,
    };
    Some(Cause::new(stage, class, format!("{words}: read it again where it comes from")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Partition;

    fn opened(own: &[Named<'_>], cause: &Cause) -> (String, Option<Cause>, Vec<String>) {
        let ours = cause.headers(&Partition::new("orders", 3), 41);
        let ours = ours.iter().map(|(name, value)| (*name, Some(value.as_bytes())));
        let letter = Letter { headers: own.iter().copied().chain(ours).collect(), ..Letter::default() };
        let (origin, own) = letter.open().unwrap();
        let place = format!("{}/{} {}", origin.topic, origin.partition, origin.offset);
        (place, origin.spoiled, own.iter().map(|(name, _)| (*name).to_owned()).collect())
    }

    #[test]
    fn a_letter_says_where_its_event_was_and_gives_its_own_headers_back() {
        let cause = Cause::new("map", CauseClass::Invalid, "why");
        let theirs: Named<'_> = ("plimsoll-topic", Some(b"an earlier one"));
        let (place, spoiled, own) = opened(&[("a", None), theirs, ("a", Some(b"1"))], &cause);
        assert_eq!((place.as_str(), spoiled), ("orders/3 41", None));
        assert_eq!(own, ["a", "plimsoll-topic", "a"]);
    }

    #[test]
    fn a_letter_that_is_not_the_whole_event_is_known() {
        for (stage, class, whole) in [
            ("file", CauseClass::Oversize, false),
            ("source", CauseClass::Invalid, false),
            ("source", CauseClass::Oversize, true),
            ("filter", CauseClass::Invalid, true),
        ] {
            let (_, spoiled, _) = opened(&[], &Cause::new(stage, class, "why"));
            assert_eq!(spoiled.is_none(), whole, "{stage}");
            // It stays what it is when it is buried again.
            assert!(spoiled.is_none_or(|cause| (cause.stage.as_ref(), cause.class) == (stage, class)));
        }
    }

    #[test]
    fn what_says_nothing_of_its_source_is_no_letter() {
        let letter = |headers| Letter { headers, ..Letter::default() }.open().unwrap_err().to_string();
        assert!(letter(vec![("a", Some(&b"1"[..]))]).contains("`plimsoll-topic` is missing"));
        let headers: Vec<Named<'_>> = vec![
            (header::TOPIC, Some(b"t")),
            (header::PARTITION, Some(b"first")),
            (header::OFFSET, Some(b"1")),
        ];
        assert!(letter(headers).contains("`plimsoll-partition`"));
    }
}
