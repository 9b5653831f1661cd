//! Names the compressors and their maximum ratios.

/// A compressor for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// Snappy: the fastest, with the largest messages.
    Snappy,
    /// zlib (RFC 1950), at a configurable level.
    Zlib,
    /// Zstandard (RFC 8878) at its default level, 3: several times the speed of zlib at about the same size.
    Zstd,
}

impl Compressor {
    /// The name in the handshake and in connection strings (`compressors`).
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    /// The number in a compressed message (MongoDB's specification "OP_COMPRESSED").
    pub fn id(self) -> u8 {
        match self {
            Compressor::Snappy => 1,
            Compressor::Zlib => 2,
            Compressor::Zstd => 3,
        }
    }

    /// The maximum number of bytes that one compressed byte can expand to. A larger claim is false.
    pub(crate) fn ratio_max(self) -> usize {
        match self {
            // A copy of 64 bytes takes a tag and an offset of two bytes.
            Compressor::Snappy => 64 / 3 + 1,
            // A match of 258 bytes takes at least two bits: one for the length, one for the distance.
            Compressor::Zlib => 258 * 8 / 2,
            // A block of 128 KiB that repeats one byte takes a header of three bytes and that byte.
            Compressor::Zstd => 128 * 1024 / 4,
        }
    }

    /// The first wanted compressor that the server supports.
    pub(crate) fn choose(wanted: &[Compressor], known: &[String]) -> Option<Compressor> {
        wanted.iter().copied().find(|wanted| known.iter().any(|name| name == wanted.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Compressor::{Snappy, Zlib, Zstd};

    fn check(wanted: &[Compressor], known: &[&str], chosen: Option<Compressor>) {
        let known: Vec<String> = known.iter().map(|&name| name.into()).collect();
        assert_eq!(Compressor::choose(wanted, &known), chosen, "{wanted:?} of {known:?}");
    }

    #[test]
    fn the_first_wanted_compressor_that_the_server_supports_is_chosen() {
        check(&[Zstd, Zlib], &["snappy", "zlib", "zstd"], Some(Zstd));
        check(&[Zlib, Zstd], &["zstd", "zlib"], Some(Zlib));
        check(&[Zstd, Zlib], &["zlib"], Some(Zlib));
        check(&[Zstd, Snappy], &["snappy", "zlib"], Some(Snappy));
        check(&[Zstd], &["snappy"], None);
        check(&[], &["zstd"], None);
        check(&[Zstd], &[], None);
    }

    #[test]
    fn the_decision_names_the_library_of_every_compressor() {
        let decision = include_str!("../../../../../docs/decisions/0010-compression.md");
        let choice = decision.lines().find(|line| line.starts_with("**Choice.**")).unwrap();
        for (compressor, library) in [(Snappy, "`snap`"), (Zlib, "`flate2`"), (Zstd, "`zstd-safe`")] {
            assert!(choice.contains(library), "{}: {choice}", compressor.name());
        }
        assert!(!choice.contains("left out"), "{choice}");
    }
}
