//! Moves an incomplete last line or document, left by a crash, out of a file.

use std::fs;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::form::Form;

/// Bytes per read, from the end of a file backwards.
const CHUNK_BYTES: u64 = 64 << 10;
/// The size of a BSON document's length field, in bytes.
const LENGTH_BYTES: u64 = 4;

/// Moves the incomplete end of a file to another file. Returns the remaining length.
///
/// # Errors
///
/// If the file cannot be read or truncated, or has another form.
pub(super) fn recover(path: &Path, file: &fs::File, form: Form) -> io::Result<u64> {
    let metadata = file.metadata()?;
    // A device has no end to check.
    if !metadata.is_file() {
        return Ok(0);
    }
    let length = metadata.len();
    let whole = match form {
        Form::Lines | Form::Whole => whole_lines(file, length)?,
        Form::Raw => whole_documents(file, length)?,
    };
    if whole < length {
        set_aside(path, file, whole)?;
    }
    Ok(whole)
}

fn whole_lines(mut file: &fs::File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut look = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(CHUNK_BYTES);
        file.seek(SeekFrom::Start(start))?;
        look.clear();
        file.take(end - start).read_to_end(&mut look)?;
        if let Some(at) = look.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn whole_documents(mut file: &fs::File, length: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(file);
    let mut at = 0;
    while at + LENGTH_BYTES <= length {
        let mut head = [0; LENGTH_BYTES as usize];
        reader.read_exact(&mut head)?;
        let size = u64::from(u32::from_le_bytes(head));
        if size <= LENGTH_BYTES || size > i32::MAX as u64 {
            let words = format!(
                "byte {at} should begin a BSON document, but its length would be {size}: choose another file"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        if at + size > length {
            break;
        }
        reader.seek_relative((size - LENGTH_BYTES) as i64)?;
        at += size;
    }
    Ok(at)
}

fn set_aside(path: &Path, mut file: &fs::File, whole: u64) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".torn");
    let mut aside = fs::OpenOptions::new().append(true).create(true).open(name)?;
    file.seek(SeekFrom::Start(whole))?;
    io::copy(&mut file, &mut aside)?;
    aside.write_all(b"\n")?;
    aside.sync_all()?;
    file.set_len(whole)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: Form, there: &[u8], whole: &[u8]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, there).unwrap();
        let file = fs::OpenOptions::new().read(true).append(true).open(&path).unwrap();
        assert_eq!(recover(&path, &file, form).unwrap(), whole.len() as u64);
        assert_eq!(fs::read(&path).unwrap(), whole);
        let aside = fs::read(dir.path().join("out.torn")).unwrap_or_default();
        assert_eq!(aside.strip_suffix(b"\n").unwrap_or(&aside), &there[whole.len()..]);
    }

    #[test]
    fn only_the_incomplete_end_is_moved() {
        check(Form::Lines, b"", b"");
        check(Form::Lines, b"a\nb\n", b"a\nb\n");
        check(Form::Lines, b"a\nhalf", b"a\n");
        check(Form::Lines, b"half", b"");
        let long = [&b"a\n"[..], &vec![b'x'; 3 * CHUNK_BYTES as usize]].concat();
        check(Form::Whole, &long, b"a\n");
        let document = [5, 0, 0, 0, 0];
        check(Form::Raw, &[document, document].concat(), &[document, document].concat());
        check(Form::Raw, &[&document[..], &document[..3]].concat(), &document);
        check(Form::Raw, &[&document[..], &[9, 0, 0, 0, 1]].concat(), &document);
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, [0; 20]).unwrap();
        let file = fs::OpenOptions::new().read(true).append(true).open(&path).unwrap();
        assert!(recover(&path, &file, Form::Raw).is_err());
    }
}
