//! Compresses with Zstandard, with reusable contexts.

use zstd_safe::{CCtx, CParameter, DCtx};

/// The library's default level.
const LEVEL: i32 = 3;

/// Compresses.
pub(super) struct Deflater(CCtx<'static>);

impl Deflater {
    pub(super) fn new() -> Self {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(LEVEL)).expect("zstd has its usual level");
        Deflater(context)
    }

    /// The maximum compressed size of `len` bytes.
    pub(super) fn bound(len: usize) -> usize {
        zstd_safe::compress_bound(len)
    }

    /// The number of bytes written to `into`; `None` if `into` is too small.
    pub(super) fn pack(&mut self, from: &[u8], into: &mut [u8]) -> Option<usize> {
        self.0.compress2(into, from).ok()
    }
}

/// Decompresses.
pub(super) struct Inflater(DCtx<'static>);

impl Inflater {
    pub(super) fn new() -> Self {
        Inflater(DCtx::create())
    }

    /// Whether `from` holds only complete frames that fill `into` exactly. A single step needs no window, whatever size the
    /// frame claims for it.
    pub(super) fn unpack(&mut self, from: &[u8], into: &mut [u8]) -> bool {
        self.0.decompress(into, from) == Ok(into.len())
    }
}
