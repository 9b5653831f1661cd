//! Opens a file at the position to which it was read before.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::flow::{Assignment, Assignments};
use crate::port::source::SourceError;
use crate::position::{Partition, Position};
use crate::source::fingerprint::{Fingerprint, HEAD_BYTES_MAX};

/// The size of the read buffer, in bytes.
const AHEAD_BYTES: usize = 1 << 16;
/// The advice for a replaced file.
const REMEDY: &str = "it was replaced by another file. To read it from its beginning, remove its position, \
    and choose a new destination unless both files hold the same data set";

/// A file opened at its position.
#[derive(Debug)]
pub(crate) struct ResumableFile {
    /// The reader, at that position.
    pub(crate) reader: BufReader<File>,
    /// The assignment of its positions. The partition has the name of the canonical path.
    pub(crate) assignment: Arc<Assignment>,
    /// The fingerprint of the file.
    pub(crate) fingerprint: Fingerprint,
    /// The position, in bytes.
    pub(crate) at: u64,
    /// The length of the file when it was opened, in bytes.
    pub(crate) end: u64,
}

/// Opens a file and its partition. `done` is `read` or `replayed`, for messages.
///
/// The fingerprint of a new file is stored before any event is handed over. So a source that ends before the
/// first commit gives the same events the same identities at the next start.
///
/// # Errors
/// If it cannot be read, was replaced, or its fingerprint cannot be stored.
pub(crate) fn open(path: &Path, assignments: &Assignments, done: &str) -> Result<ResumableFile, SourceError> {
    let refuse = |error: io::Error| SourceError::Refused(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(refuse)?;
    let about = file.metadata().map_err(refuse)?;
    // The canonical path is the same from every working directory.
    let whole = path.canonicalize().map_err(refuse)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES_MAX as u64).read_to_end(&mut head).map_err(refuse)?;
    let (assignment, from) = assignments.open(Partition::new(whole.display().to_string(), 0))?;
    let (at, end) = (from.as_ref().map_or(0, |position| position.next), about.len());
    let fingerprint = match &from {
        Some(from) => {
            let known = known(from, &head, end);
            known.map_err(|words| SourceError::Refused(replaced(path, &words, done, at)))?
        }
        None => {
            let fingerprint = Fingerprint::first(&head, [about.dev(), about.ino()]);
            store_fingerprint(assignments, assignment.partition(), fingerprint)?;
            fingerprint
        }
    };
    file.seek(SeekFrom::Start(at)).map_err(refuse)?;
    Ok(ResumableFile {
        reader: BufReader::with_capacity(AHEAD_BYTES, file),
        assignment,
        fingerprint,
        at,
        end,
    })
}

/// The fingerprint for a position, if the file matches it; otherwise the difference.
fn known(from: &Position, head: &[u8], end: u64) -> Result<Fingerprint, String> {
    if from.next > end {
        return Err(format!("has {end} bytes"));
    }
    let Some(token) = &from.token else { return Ok(Fingerprint::unnumbered(head)) };
    let fingerprint = Fingerprint::parse(token).and_then(|fingerprint| fingerprint.verify(head));
    fingerprint.ok_or_else(|| "has another beginning now".to_owned())
}

fn replaced(path: &Path, words: &str, done: &str, at: u64) -> String {
    format!("{}: it {words}, and was {done} to byte {at} before; {REMEDY}", path.display())
}

fn store_fingerprint(
    assignments: &Assignments,
    partition: &Partition,
    fingerprint: Fingerprint,
) -> Result<(), SourceError> {
    match assignments.positions() {
        Some(store) => Ok(store.keep(&[(partition.clone(), fingerprint.position(0))])?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;

    use super::*;
    use crate::position::{Claim, PositionError, PositionStore};

    /// A store with one position for every partition.
    struct At(Mutex<Option<Position>>);

    impl At {
        fn new(position: Option<Position>) -> Arc<Self> {
            Arc::new(Self(Mutex::new(position)))
        }
    }

    impl PositionStore for At {
        fn claim(&self, _partition: &Partition) -> Result<Claim, PositionError> {
            Ok(Claim { position: self.0.lock().unwrap().clone(), ..Claim::default() })
        }

        fn keep(&self, positions: &[(Partition, Position)]) -> Result<(), PositionError> {
            *self.0.lock().unwrap() = positions.last().map(|(_, position)| position.clone());
            Ok(())
        }
    }

    fn open_at(path: &Path, store: &Arc<At>) -> Result<ResumableFile, SourceError> {
        open(path, &Assignments::new(Some(Arc::clone(store) as Arc<dyn PositionStore>)), "read")
    }

    #[test]
    fn a_file_resumes_at_its_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        fs::write(&path, "one\ntwo\n").unwrap();
        for (position, from, left) in [(None, 0, "one\ntwo\n"), (Some(4), 4, "two\n"), (Some(8), 8, "")] {
            let mut opened = open_at(&path, &At::new(position.map(Position::at))).unwrap();
            let mut text = String::new();
            opened.reader.read_to_string(&mut text).unwrap();
            assert_eq!((opened.at, opened.end, text.as_str()), (from, 8, left));
            assert_eq!(&*opened.assignment.partition().topic, path.canonicalize().unwrap().to_str().unwrap());
        }
    }

    #[test]
    fn a_truncated_or_missing_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        let refusal = || open_at(&path, &At::new(Some(Position::at(9)))).unwrap_err().to_string();
        assert!(refusal().contains("in: No such file"), "{}", refusal());
        fs::write(&path, "one\ntwo\n").unwrap();
        let part = "has 8 bytes, and was read to byte 9 before; it was replaced by another file";
        assert!(refusal().contains(part) && refusal().contains("a new destination"), "{}", refusal());
    }

    #[test]
    fn a_replaced_file_is_refused_and_a_grown_one_resumes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        fs::write(&path, "one\ntwo\n").unwrap();
        let first = open_at(&path, &At::new(None)).unwrap();
        let store = At::new(Some(first.fingerprint.position(8)));
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let grown = open_at(&path, &store).unwrap();
        assert_eq!((grown.at, grown.fingerprint.number()), (8, first.fingerprint.number()));
        fs::write(&path, "eins\nzwei\ndrei\n").unwrap();
        let words = open_at(&path, &store).unwrap_err().to_string();
        assert!(words.contains("has another beginning now, and was read to byte 8 before"), "{words}");
        assert!(words.contains("remove its position"), "{words}");
        let anew = open_at(&path, &At::new(None)).unwrap();
        assert!(
            anew.at == 0 && anew.fingerprint.number() != first.fingerprint.number(),
            "its events have other identities"
        );
    }

    #[test]
    fn the_fingerprint_is_stored_before_the_first_event() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        fs::write(&path, "one\n").unwrap();
        let store = At::new(None);
        let first = open_at(&path, &store).unwrap();
        // The first source ended before its first commit, and the file has grown.
        fs::write(&path, "one\ntwo\n").unwrap();
        let again = open_at(&path, &store).unwrap();
        assert_eq!((again.at, again.fingerprint.number()), (0, first.fingerprint.number()));
    }
}
