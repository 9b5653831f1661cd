//! Computes the SHA-256 of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ring::digest::{Context, SHA256};

/// The bytes of one read.
const CHUNK_BYTES: usize = 1 << 20;

/// A file's SHA-256 in hexadecimal digits, and its length.
///
/// # Errors
/// The file cannot be read.
pub fn of_file(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut context, mut chunk, mut bytes) = (Context::new(&SHA256), vec![0; CHUNK_BYTES], 0);
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok((hexadecimal(context.finish().as_ref()), bytes));
        }
        context.update(&chunk[..read]);
        bytes += read as u64;
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_file(file.path()).unwrap(), (expected.to_owned(), 3));
    }

    #[test]
    fn a_file_longer_than_a_chunk_is_read_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, vec![b'a'; 3 * CHUNK_BYTES + 1]).unwrap();
        assert_eq!(of_file(file.path()).unwrap().1, 3 * CHUNK_BYTES as u64 + 1);
    }
}
