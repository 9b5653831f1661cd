//! Reads a text file of bounded size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file that holds no text to read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is a directory.
    #[error("{0} is a directory: name a file")]
    Directory(String),
    /// The file is too large.
    #[error(
        "{path} has more than {bytes_max} bytes, the limit of such a file: name another file, or make it smaller"
    )]
    TooLarge {
        /// The path of the file.
        path: String,
        /// The limit.
        bytes_max: u64,
    },
    /// The file is not UTF-8.
    #[error(
        "{path}: line {line}, column {column}: the byte {byte:#04x} is not UTF-8: save the file as UTF-8"
    )]
    NotUtf8 {
        /// The path of the file.
        path: String,
        /// The line of the first such byte, from 1.
        line: usize,
        /// The column of the first such byte, from 1.
        column: usize,
        /// The byte.
        byte: u8,
    },
    /// The file cannot be read.
    #[error("read {path}: {error}")]
    Unreadable {
        /// The path of the file.
        path: String,
        /// The cause.
        error: io::Error,
    },
}

/// Reads a text file of at most `bytes_max` bytes.
///
/// # Errors
/// When the path is no readable text file of that size.
pub fn text_of(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let shown = || path.display().to_string();
    if path.is_dir() {
        return Err(FileError::Directory(shown()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| FileError::Unreadable { path: shown(), error })?;
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    let length = read.map_err(|error| FileError::Unreadable { path: shown(), error })?;
    if u64::try_from(length).unwrap_or(u64::MAX) > bytes_max {
        return Err(FileError::TooLarge { path: shown(), bytes_max });
    }
    String::from_utf8(bytes)
        .map_err(|error| not_utf8(shown(), error.as_bytes(), error.utf8_error().valid_up_to()))
}

fn not_utf8(path: String, bytes: &[u8], at: usize) -> FileError {
    let before = String::from_utf8_lossy(&bytes[..at]);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    FileError::NotUtf8 { path, line, column, byte: bytes[at] }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn message(bytes: &[u8], bytes_max: u64) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        fs::write(&path, bytes).unwrap();
        text_of(&path, bytes_max).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_is_no_text_is_refused_with_its_place() {
        let said = message(b"a: 1\n\xc3\xa9: \xe9\n", 100);
        assert!(
            said.ends_with("a.yaml: line 2, column 4: the byte 0xe9 is not UTF-8: save the file as UTF-8"),
            "{said}"
        );
        assert!(message(b"a: 1\n", 4).contains("more than 4 bytes"));
        let dir = tempfile::tempdir().unwrap();
        assert!(text_of(dir.path(), 10).unwrap_err().to_string().ends_with("is a directory: name a file"));
        assert!(matches!(text_of(&dir.path().join("none"), 10), Err(FileError::Unreadable { .. })));
    }

    #[test]
    fn a_file_of_the_largest_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        fs::write(&path, "a: 1\n").unwrap();
        assert_eq!(text_of(&path, 5).unwrap(), "a: 1\n");
    }
}
