//! Defines positions in a feed, and the cursor between pages.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use mongodb::bson::{DateTime, Document, doc};

/// A position in a feed: after the activity of that time and id. Feeds are in descending order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The activity's time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The activity's id.
    pub id: String,
}

impl Position {
    /// The filter for all activities below, with the id in the field `id`. The first condition gives the index its bounds; the
    /// second excludes activities of the same time.
    pub(super) fn below(&self, id: &str) -> Document {
        let at = DateTime::from_millis(self.at_ms);
        doc! {"t": {"$lte": at}, "$or": [{"t": {"$lt": at}}, {id: {"$lt": &self.id}}]}
    }
}

/// The start of the next page, as an opaque text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The position before the page.
    pub after: Position,
    /// The number of activities on the pages before.
    pub seen: u32,
}

/// The longest text of a cursor.
const TEXT_BYTES_MAX: usize = 512;

impl Cursor {
    /// The text form.
    pub fn text(&self) -> String {
        let Position { at_ms, id } = &self.after;
        BASE64_URL_SAFE_NO_PAD.encode(format!("{at_ms}.{}.{id}", self.seen))
    }

    /// Parses the text form.
    pub fn of(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?;
        let mut parts = text.splitn(3, '.');
        let (at_ms, seen) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let id = parts.next().filter(|id| !id.is_empty())?.to_owned();
        Some(Self { after: Position { at_ms, id }, seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_form() {
        for (at_ms, id) in [(1, "a"), (-5, "with.dots.in it"), (i64::MAX, "ü")] {
            let cursor = Cursor { after: Position { at_ms, id: id.into() }, seen: 50 };
            assert_eq!(Cursor::of(&cursor.text()), Some(cursor));
        }
    }

    #[test]
    fn an_invalid_cursor_is_refused() {
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        for text in [
            "",
            "{\"$gt\":\"\"}",
            "!!!",
            &encode("1.2"),
            &encode("1.2."),
            &encode("x.2.a"),
            &encode("1.-2.a"),
            &"a".repeat(513),
        ] {
            assert_eq!(Cursor::of(text), None, "{text}");
        }
    }
}
