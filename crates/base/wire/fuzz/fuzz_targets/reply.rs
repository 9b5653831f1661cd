//! Fuzzes the parsers of server replies: no bytes cause a panic, and the memory stays in proportion to the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_wire::{Compressor, untrusted};

fuzz_target!(|bytes: &[u8]| {
    for chunk in [1, usize::MAX] {
        let fed = untrusted::feed(bytes, chunk, None);
        assert!(fed.allocated <= 16 * 1024 + 2 * bytes.len());
        for compressor in [Compressor::Zlib, Compressor::Zstd] {
            untrusted::feed(bytes, chunk, Some(compressor));
        }
    }
});
