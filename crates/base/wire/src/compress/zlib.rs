//! zlib with contexts that are made once.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Makes bytes smaller.
pub(super) struct Deflater(Compress);

impl Deflater {
    /// `level` goes from 0 (none) to 9 (smallest); `None`, or below 0, is zlib's usual one, and above 9 is 9.
    pub(super) fn new(level: Option<i32>) -> Self {
        let usual = Compression::default();
        let level = level.and_then(|level| u32::try_from(level).ok());
        Deflater(Compress::new(level.map_or(usual, |level| Compression::new(level.min(9))), true))
    }

    /// The most bytes that `len` bytes can become (the quick methods write nine bits for a byte at worst).
    pub(super) fn bound(len: usize) -> usize {
        len + len / 8 + 128
    }

    /// How many bytes of `into` were filled; `None` if they are too few.
    pub(super) fn pack(&mut self, from: &[u8], into: &mut [u8]) -> Option<usize> {
        self.0.reset();
        let done = self.0.compress(from, into, FlushCompress::Finish).ok()?;
        (done == Status::StreamEnd).then(|| usize::try_from(self.0.total_out()).ok())?
    }
}

/// Makes them what they were.
pub(super) struct Inflater(Decompress);

impl Inflater {
    pub(super) fn new() -> Self {
        Inflater(Decompress::new(true))
    }

    /// Whether all bytes of `from` are one whole stream that fills `into` to its end.
    pub(super) fn unpack(&mut self, from: &[u8], into: &mut [u8]) -> bool {
        self.0.reset(true);
        let done = self.0.decompress(from, into, FlushDecompress::Finish);
        let (read, written) = (self.0.total_in(), self.0.total_out());
        matches!(done, Ok(Status::StreamEnd)) && read == from.len() as u64 && written == into.len() as u64
    }
}
