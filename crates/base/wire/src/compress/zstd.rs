//! Zstandard with contexts that are made once.

use zstd_safe::{CCtx, CParameter, DCtx};

/// The library's own usual level.
const LEVEL: i32 = 3;

/// Makes bytes smaller.
pub(super) struct Deflater(CCtx<'static>);

impl Deflater {
    pub(super) fn new() -> Self {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(LEVEL)).expect("zstd has its usual level");
        Deflater(context)
    }

    /// The most bytes that `len` bytes can become.
    pub(super) fn bound(len: usize) -> usize {
        zstd_safe::compress_bound(len)
    }

    /// How many bytes of `into` were filled; `None` if they are too few.
    pub(super) fn pack(&mut self, from: &[u8], into: &mut [u8]) -> Option<usize> {
        self.0.compress2(into, from).ok()
    }
}

/// Makes them what they were.
pub(super) struct Inflater(DCtx<'static>);

impl Inflater {
    pub(super) fn new() -> Self {
        Inflater(DCtx::create())
    }

    /// Whether all bytes of `from` are whole frames that fill `into` to its end. In one step, so that the library
    /// needs no window of its own, whatever size the frame claims for it.
    pub(super) fn unpack(&mut self, from: &[u8], into: &mut [u8]) -> bool {
        self.0.decompress(into, from) == Ok(into.len())
    }
}
