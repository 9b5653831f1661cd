//! Fills in timestamps when a request is sent. Binary data of a user-defined subtype marks each position in a template.

use plimsoll_element::Element;

use super::moment;

/// User-defined binary data: here, a timestamp to fill in when a request is sent.
const SUBTYPE_OWN: u8 = 0x80;

/// The prefix that distinguishes a timestamp from other binary data of the same subtype.
const MAGIC: &[u8; 4] = b"$now";

/// A timestamp to fill in when a request is sent: its position, form and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) at: usize,
    pub(crate) form: StampForm,
    pub(crate) plus_ms: i64,
}

/// The format of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StampForm {
    /// As RFC 3339.
    Text,
    /// As milliseconds since 1970.
    Millis,
}

/// The timestamps of a request.
pub(crate) type Stamps = Vec<Stamp>;

impl Stamp {
    /// The bytes that mark a timestamp in a template.
    pub(crate) fn encode(form: StampForm, plus_ms: i64) -> [u8; 13] {
        let mut bytes = [0; 13];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = u8::from(form == StampForm::Millis);
        bytes[5..].copy_from_slice(&plus_ms.to_le_bytes());
        bytes
    }

    /// The timestamp that an element marks, if any; its characters start at `at`.
    pub(super) fn of(at: usize, element: &Element<'_>) -> Option<Self> {
        let (subtype, bytes) = element.as_binary()?;
        Self::decode(at, bytes).filter(|_| subtype == SUBTYPE_OWN)
    }

    fn decode(at: usize, bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (&form, plus) = rest.split_first()?;
        let form = if form == 0 { StampForm::Text } else { StampForm::Millis };
        Some(Self { at, form, plus_ms: i64::from_le_bytes(plus.try_into().ok()?) })
    }

    /// Writes the time `now_ms` at its position.
    pub(crate) fn write(&self, now_ms: i64, out: &mut [u8]) {
        let ms = now_ms.saturating_add(self.plus_ms);
        let rest = out.get_mut(self.at..).unwrap_or_default();
        match self.form {
            StampForm::Text => {
                rest.first_chunk_mut().into_iter().for_each(|chunk| moment::write_text(ms, chunk))
            }
            StampForm::Millis => {
                rest.first_chunk_mut().into_iter().for_each(|chunk| moment::write_millis(ms, chunk))
            }
        }
    }

    /// The number of its characters.
    pub(super) fn width(&self) -> usize {
        if self.form == StampForm::Text { moment::TEXT_LEN } else { moment::MILLIS_LEN }
    }
}
