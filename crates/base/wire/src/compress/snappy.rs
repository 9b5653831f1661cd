//! Compresses with Snappy in its raw form, without frames.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

/// Compresses.
pub(super) struct Deflater(Box<Encoder>);

impl Deflater {
    pub(super) fn new() -> Self {
        Deflater(Box::new(Encoder::new()))
    }

    /// The maximum compressed size of `len` bytes.
    pub(super) fn bound(len: usize) -> usize {
        max_compress_len(len)
    }

    /// The number of bytes written to `into`; `None` if `into` is too small for any content of that size.
    pub(super) fn pack(&mut self, from: &[u8], into: &mut [u8]) -> Option<usize> {
        self.0.compress(from, into).ok()
    }
}

/// Decompresses.
pub(super) struct Inflater(Decoder);

impl Inflater {
    pub(super) fn new() -> Self {
        Inflater(Decoder::new())
    }

    /// Whether `from` fills `into` exactly.
    pub(super) fn unpack(&mut self, from: &[u8], into: &mut [u8]) -> bool {
        decompress_len(from) == Ok(into.len()) && self.0.decompress(from, into) == Ok(into.len())
    }
}
