//! Compresses with zlib, with reusable contexts.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Compresses.
pub(super) struct Deflater(Compress);

impl Deflater {
    /// `level` is from 0 (none) to 9 (smallest). `None` and negative numbers select the default; higher numbers count as 9.
    pub(super) fn new(level: Option<i32>) -> Self {
        let usual = Compression::default();
        let level = level.and_then(|level| u32::try_from(level).ok());
        Deflater(Compress::new(level.map_or(usual, |level| Compression::new(level.min(9))), true))
    }

    /// The maximum compressed size of `len` bytes (the fast methods write at most nine bits per byte).
    pub(super) fn bound(len: usize) -> usize {
        len + len / 8 + 128
    }

    /// The number of bytes written to `into`; `None` if `into` is too small.
    pub(super) fn pack(&mut self, from: &[u8], into: &mut [u8]) -> Option<usize> {
        self.0.reset();
        let done = self.0.compress(from, into, FlushCompress::Finish).ok()?;
        (done == Status::StreamEnd).then(|| usize::try_from(self.0.total_out()).ok())?
    }
}

/// Decompresses.
pub(super) struct Inflater(Decompress);

impl Inflater {
    pub(super) fn new() -> Self {
        Inflater(Decompress::new(true))
    }

    /// Whether `from` is exactly one complete stream that fills `into` exactly.
    pub(super) fn unpack(&mut self, from: &[u8], into: &mut [u8]) -> bool {
        self.0.reset(true);
        let done = self.0.decompress(from, into, FlushDecompress::Finish);
        let (read, written) = (self.0.total_in(), self.0.total_out());
        matches!(done, Ok(Status::StreamEnd)) && read == from.len() as u64 && written == into.len() as u64
    }
}
