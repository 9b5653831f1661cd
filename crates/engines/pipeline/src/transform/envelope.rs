//! Encodes events into a compact binary envelope, for systems that keep only bytes, and decodes them.
//!
//! All numbers are little-endian:
//!
//! | bytes | content |
//! | --- | --- |
//! | 2 | `PW` |
//! | 1 | version, now 1 |
//! | 1 | flags: 1 has a key, 2 has a payload |
//! | 4 | checksum |
//! | 8 | append time, in milliseconds since 1970 UTC |
//! | 4, 4, 4 | lengths of key, headers and payload |
//! | … | key, headers ([`crate::Headers`]), payload |

use thiserror::Error;

use crate::event::{Batch, Cause, CauseClass, Clock, Event, Fate, Headers, Span};
use crate::port::transform::{Transform, TransformError, TransformFactory};

const MAGIC: [u8; 2] = *b"PW";
const VERSION: u8 = 1;
const HAS_KEY: u8 = 1;
const HAS_PAYLOAD: u8 = 2;
const HEAD_BYTES: usize = 28;
/// The place of the checksum in an envelope, in bytes.
const CHECKSUM: std::ops::Range<usize> = 4..8;

/// The fault of an invalid envelope.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EnvelopeError {
    /// The envelope is shorter than its lengths say.
    #[error("the envelope ends after {0} bytes")]
    Short(usize),
    /// The envelope is longer than its lengths say.
    #[error("{0} bytes follow the envelope")]
    Long(usize),
    /// The bytes are not an envelope.
    #[error("this is not an envelope: it does not begin with `PW`")]
    Magic,
    /// A newer program wrote it.
    #[error("the envelope has version {0}, and this program reads version {VERSION}")]
    Version(u8),
    /// A newer program wrote it.
    #[error("the envelope has flags that this program does not know ({0:#010b})")]
    Flags(u8),
    /// The envelope's headers are invalid.
    #[error("the envelope's headers end within a header: it was not written by this program")]
    Headers,
    /// The envelope is damaged.
    #[error("the envelope's checksum is {found:#010x} and should be {expected:#010x}")]
    Checksum {
        /// The checksum in the envelope.
        expected: u32,
        /// The checksum of its bytes.
        found: u32,
    },
}

/// Replaces each payload by an envelope of its event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encode;

/// Replaces each event by the content of its envelope. Invalid envelopes are rejected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decode;

fn encode(arena: &mut Vec<u8>, batch: &Batch, event: &Event) {
    let (key, payload) = (batch.key(event), batch.payload(event));
    let headers = batch.headers(event).as_bytes();
    let start = arena.len();
    arena.extend_from_slice(&MAGIC);
    arena.push(VERSION);
    arena.push((u8::from(key.is_some()) * HAS_KEY) | (u8::from(payload.is_some()) * HAS_PAYLOAD));
    arena.extend_from_slice(&[0; 4]);
    arena.extend_from_slice(&event.appended_ms.to_le_bytes());
    let (key, payload) = (key.unwrap_or_default(), payload.unwrap_or_default());
    [key.len(), headers.len(), payload.len()]
        .into_iter()
        .for_each(|len| arena.extend_from_slice(&(len as u32).to_le_bytes()));
    [key, headers, payload].into_iter().for_each(|part| arena.extend_from_slice(part));
    let checksum = checksum(&arena[start..]);
    arena[start..][CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

/// The checksum of an envelope without its first two bytes and the checksum itself.
fn checksum(envelope: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&envelope[MAGIC.len()..CHECKSUM.start]), &envelope[CHECKSUM.end..])
}

/// The content of an envelope, as ranges of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    appended_ms: u64,
    key: Option<(usize, usize)>,
    headers: (usize, usize),
    payload: Option<(usize, usize)>,
}

fn decode(bytes: &[u8]) -> Result<Held, EnvelopeError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(EnvelopeError::Magic);
    }
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Err(EnvelopeError::Short(bytes.len())) };
    let (version, flags) = (head[2], head[3]);
    if version != VERSION {
        return Err(EnvelopeError::Version(version));
    }
    if flags & !(HAS_KEY | HAS_PAYLOAD) != 0 {
        return Err(EnvelopeError::Flags(flags));
    }
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (expected, found) = (number(4), checksum(bytes));
    let [key, headers, payload] = [16, 20, 24].map(|at| number(at) as usize);
    let whole = HEAD_BYTES + key + headers + payload;
    if bytes.len() < whole {
        return Err(EnvelopeError::Short(bytes.len()));
    }
    if expected != found {
        return Err(EnvelopeError::Checksum { expected, found });
    }
    if bytes.len() > whole {
        return Err(EnvelopeError::Long(bytes.len() - whole));
    }
    let (key_end, headers_end) = (HEAD_BYTES + key, HEAD_BYTES + key + headers);
    if !Headers::new(&bytes[key_end..headers_end]).are_whole() {
        return Err(EnvelopeError::Headers);
    }
    let appended_ms = u64::from(number(8)) | u64::from(number(12)) << 32;
    Ok(Held {
        appended_ms,
        key: (flags & HAS_KEY != 0).then_some((HEAD_BYTES, key_end)),
        headers: (key_end, headers_end),
        payload: (flags & HAS_PAYLOAD != 0).then_some((headers_end, whole)),
    })
}

impl Transform for Encode {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        let mut written = Vec::new();
        for index in 0..batch.events().len() {
            written.clear();
            encode(&mut written, batch, &batch.events()[index]);
            let payload = batch.keep(&written);
            batch.events_mut()[index].payload = payload;
        }
        Ok(())
    }
}

impl Transform for Decode {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        batch.sift(|batch, index| {
            let event = batch.events()[index];
            let held = decode(batch.payload(&event).unwrap_or_default());
            let held = match held {
                Ok(held) => held,
                Err(error) => {
                    return Fate::Reject(Cause::new("decode", CauseClass::Invalid, error.to_string()));
                }
            };
            // The parts stay in the arena, within the envelope.
            let within = |(start, end): (usize, usize)| event.payload.within(start, end);
            let event = Event {
                appended_ms: held.appended_ms,
                clock: Clock::Producer,
                key: held.key.map_or(Span::NULL, within),
                headers: within(held.headers),
                payload: held.payload.map_or(Span::NULL, within),
                ..event
            };
            batch.replace(index, event);
            Fate::Keep
        });
        Ok(())
    }
}

impl TransformFactory for Encode {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(*self))
    }

    fn name(&self) -> &str {
        "encode"
    }
}

impl TransformFactory for Decode {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(*self))
    }

    fn name(&self) -> &str {
        "decode"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

    fn batch(payload: Option<&[u8]>, key: Option<&[u8]>) -> Batch {
        let mut batch = Batch::new(Partition::new("t", 0));
        let record = Record { offset: 3, appended_ms: 1_774_193_836_641, key, payload };
        batch.push_with(record, [("h", Some(&b"v"[..])), ("n", None)]);
        batch
    }

    fn encoded(batch: &mut Batch) -> Vec<u8> {
        Encode.apply(batch).unwrap();
        batch.payload(&batch.events()[0]).unwrap().to_vec()
    }

    #[test]
    fn decoding_reverses_encoding() {
        for (payload, key) in
            [(Some(&b"payload"[..]), Some(&b"key"[..])), (None, None), (Some(b""), Some(b""))]
        {
            let mut there = batch(payload, key);
            let envelope = encoded(&mut there);
            let mut back = Batch::new(Partition::new("u", 1));
            back.push(Record { offset: 9, appended_ms: 5, key: Some(b"other"), payload: Some(&envelope) });
            Decode.apply(&mut back).unwrap();
            let event = back.events()[0];
            assert_eq!((event.offset, event.appended_ms), (9, 1_774_193_836_641));
            assert_eq!((back.payload(&event), back.key(&event)), (payload, key));
            assert_eq!(back.headers(&event).collect::<Vec<_>>(), [("h", Some(&b"v"[..])), ("n", None)]);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_detected() {
        let envelope = encoded(&mut batch(Some(b"payload"), Some(b"key")));
        assert!(decode(&envelope).is_ok());
        for bit in 0..envelope.len() * 8 {
            let mut flipped = envelope.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..envelope.len() {
            assert!(decode(&envelope[..cut]).is_err(), "cut at {cut}");
        }
        let mut longer = envelope.clone();
        longer.push(0);
        assert!(decode(&longer).is_err());
    }

    #[test]
    fn the_error_names_the_damage() {
        let good = encoded(&mut batch(Some(b"payload"), Some(b"key")));
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: &str| {
            let mut bytes = good.clone();
            change(&mut bytes);
            let words = decode(&bytes).unwrap_err().to_string();
            assert!(words.contains(expected), "{words}");
        };
        let signed = |bytes: &mut Vec<u8>| {
            let sum = checksum(bytes);
            bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        };
        check(&|bytes| bytes[0] = b'Q', "does not begin with `PW`");
        check(&|bytes| bytes[2] = 9, "has version 9, and this program reads version 1");
        check(&|bytes| bytes[3] |= 4, "flags that this program does not know");
        check(&|bytes| *bytes.last_mut().unwrap() ^= 1, "the envelope's checksum is 0x");
        check(&|bytes| bytes.truncate(10), "ends after 10 bytes");
        check(
            &|bytes| {
                bytes.push(0);
                signed(bytes);
            },
            "1 bytes follow the envelope",
        );
        // Headers with too large a length, and a valid checksum.
        let headers_at = HEAD_BYTES + b"key".len();
        check(
            &|bytes| {
                bytes[headers_at] = 0xff;
                signed(bytes);
            },
            "end within a header",
        );
    }

    #[test]
    fn an_event_without_envelope_is_rejected_with_its_payload() {
        let mut batch = batch(Some(b"plain"), None);
        Decode.apply(&mut batch).unwrap();
        assert!(batch.events().is_empty());
        let rejected = &batch.rejected()[0];
        assert_eq!(batch.original(&rejected.event), Some(&b"plain"[..]));
        assert!(rejected.cause.message.contains("not an envelope"), "{}", rejected.cause);
    }
}
