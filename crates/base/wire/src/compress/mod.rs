//! Compresses messages with OP_COMPRESSED, by a compressor that both sides named in the handshake.

pub use compressor::Compressor;
pub(crate) use pack::Packer;
pub(crate) use unpack::Unpacker;

mod compressor;

mod pack;
mod unpack;

mod snappy;
mod zlib;
mod zstd;
