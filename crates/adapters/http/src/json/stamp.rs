//! Moments that are filled in when a request is sent. A template holds a mark in the place of each: binary data of the user's
//! own subtype.

use super::moment;
use super::walk::{SUBTYPE_OWN, binary};

/// What marks a moment to be filled in, among binary data of the same subtype.
const MAGIC: &[u8; 4] = b"$now";

/// A moment that is filled in when a request is sent: where its characters stand, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) at: usize,
    pub(crate) form: StampForm,
    pub(crate) plus_ms: i64,
}

/// How a moment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StampForm {
    /// As RFC 3339.
    Text,
    /// As milliseconds since 1970.
    Millis,
}

/// The moments of a request.
pub(crate) type Stamps = Vec<Stamp>;

impl Stamp {
    /// The bytes that stand for a moment in a template.
    pub(crate) fn encode(form: StampForm, plus_ms: i64) -> [u8; 13] {
        let mut bytes = [0; 13];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = u8::from(form == StampForm::Millis);
        bytes[5..].copy_from_slice(&plus_ms.to_le_bytes());
        bytes
    }

    /// The moment that a binary value stands for, if it does; its characters will stand at `at`.
    pub(super) fn of(at: usize, value: &[u8]) -> Option<Self> {
        let (subtype, bytes) = binary(value);
        Self::decode(at, bytes).filter(|_| subtype == SUBTYPE_OWN)
    }

    fn decode(at: usize, bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (&form, plus) = rest.split_first()?;
        let form = if form == 0 { StampForm::Text } else { StampForm::Millis };
        Some(Self { at, form, plus_ms: i64::from_le_bytes(plus.try_into().ok()?) })
    }

    /// Writes the moment `now_ms` to its place.
    pub(crate) fn write(&self, now_ms: i64, out: &mut [u8]) {
        let ms = now_ms.saturating_add(self.plus_ms);
        let place = out.get_mut(self.at..).unwrap_or_default();
        match self.form {
            StampForm::Text => {
                place.first_chunk_mut().into_iter().for_each(|place| moment::write_text(ms, place))
            }
            StampForm::Millis => {
                place.first_chunk_mut().into_iter().for_each(|place| moment::write_millis(ms, place))
            }
        }
    }

    /// How many characters it has.
    pub(super) fn width(&self) -> usize {
        if self.form == StampForm::Text { moment::TEXT_LEN } else { moment::MILLIS_LEN }
    }
}
