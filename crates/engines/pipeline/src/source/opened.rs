//! A file that is read on from where it was read to before.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::flow::{Lane, Lanes};
use crate::place::{Partition, Position};
use crate::port::source::SourceError;
use crate::source::seen::{HEAD_BYTES_MAX, Seen};

/// How much of it is read ahead, in bytes.
const AHEAD_BYTES: usize = 1 << 16;
/// What to do about a file that is another one now.
const REMEDY: &str = "it is another file now. To read it from its beginning, remove its position, and name another destination too \
    unless what both files hold belongs together";

/// A file that is open at the place where it goes on.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Reads on from there.
    pub(crate) reader: BufReader<File>,
    /// Where its positions are kept: the partition is named by its whole path.
    pub(crate) lane: Arc<Lane>,
    /// Which file it is.
    pub(crate) seen: Seen,
    /// Where it goes on, in bytes.
    pub(crate) at: u64,
    /// Where it ends now, in bytes.
    pub(crate) end: u64,
}

/// Opens a file and its partition; `done` says in a word what was done with it before.
///
/// A file that is opened for the first time is remembered before anything of it is handed over: who ends before the first
/// commit must give the same events the same names when it starts again.
///
/// # Errors
/// If it cannot be read, is not the one that it was, or nobody can remember it.
pub(crate) fn open(path: &Path, lanes: &Lanes, done: &str) -> Result<Opened, SourceError> {
    let refuse = |error: io::Error| SourceError::Refused(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(refuse)?;
    let about = file.metadata().map_err(refuse)?;
    // The same file has one name, from wherever it is read.
    let whole = path.canonicalize().map_err(refuse)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES_MAX as u64).read_to_end(&mut head).map_err(refuse)?;
    let (lane, from) = lanes.open(Partition::new(whole.display().to_string(), 0))?;
    let (at, end) = (from.as_ref().map_or(0, |position| position.next), about.len());
    let seen = match &from {
        Some(from) => {
            let known = known(from, &head, end);
            known.map_err(|words| SourceError::Refused(other(path, &words, done, at)))?
        }
        None => {
            let seen = Seen::first(&head, [about.dev(), about.ino()]);
            remember(lanes, lane.partition(), seen)?;
            seen
        }
    };
    file.seek(SeekFrom::Start(at)).map_err(refuse)?;
    Ok(Opened { reader: BufReader::with_capacity(AHEAD_BYTES, file), lane, seen, at, end })
}

/// The file that a position is of, if it begins so and has so many bytes; otherwise what is wrong with it.
fn known(from: &Position, head: &[u8], end: u64) -> Result<Seen, String> {
    if from.next > end {
        return Err(format!("has {end} bytes"));
    }
    let Some(token) = &from.token else { return Ok(Seen::unnumbered(head)) };
    let seen = Seen::read(token).and_then(|seen| seen.again(head));
    seen.ok_or_else(|| "begins otherwise than it did".to_owned())
}

fn other(path: &Path, words: &str, done: &str, at: u64) -> String {
    format!("{}: it {words}, and was {done} to byte {at} before; {REMEDY}", path.display())
}

fn remember(lanes: &Lanes, partition: &Partition, seen: Seen) -> Result<(), SourceError> {
    match lanes.positions() {
        Some(store) => Ok(store.keep(&[(partition.clone(), seen.position(0))])?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;

    use super::*;
    use crate::port::positions::{Claim, PositionError, PositionStore};

    /// Knows one position of every partition.
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

    fn open_at(path: &Path, store: &Arc<At>) -> Result<Opened, SourceError> {
        open(path, &Lanes::new(Some(Arc::clone(store) as Arc<dyn PositionStore>)), "read")
    }

    #[test]
    fn a_file_goes_on_where_it_was_and_says_where_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        fs::write(&path, "one\ntwo\n").unwrap();
        for (position, from, left) in [(None, 0, "one\ntwo\n"), (Some(4), 4, "two\n"), (Some(8), 8, "")] {
            let mut opened = open_at(&path, &At::new(position.map(Position::at))).unwrap();
            let mut text = String::new();
            opened.reader.read_to_string(&mut text).unwrap();
            assert_eq!((opened.at, opened.end, text.as_str()), (from, 8, left));
            assert_eq!(&*opened.lane.partition().topic, path.canonicalize().unwrap().to_str().unwrap());
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_or_not_there_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        let refusal = || open_at(&path, &At::new(Some(Position::at(9)))).unwrap_err().to_string();
        assert!(refusal().contains("in: No such file"), "{}", refusal());
        fs::write(&path, "one\ntwo\n").unwrap();
        let part = "has 8 bytes, and was read to byte 9 before; it is another file now";
        assert!(refusal().contains(part) && refusal().contains("another destination"), "{}", refusal());
    }

    #[test]
    fn a_longer_file_in_its_place_is_refused_and_one_that_only_grew_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        fs::write(&path, "one\ntwo\n").unwrap();
        let first = open_at(&path, &At::new(None)).unwrap();
        let store = At::new(Some(first.seen.position(8)));
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let grown = open_at(&path, &store).unwrap();
        assert_eq!((grown.at, grown.seen.number()), (8, first.seen.number()));
        fs::write(&path, "eins\nzwei\ndrei\n").unwrap();
        let words = open_at(&path, &store).unwrap_err().to_string();
        assert!(words.contains("begins otherwise than it did, and was read to byte 8 before"), "{words}");
        assert!(words.contains("remove its position"), "{words}");
        let anew = open_at(&path, &At::new(None)).unwrap();
        assert!(
            anew.at == 0 && anew.seen.number() != first.seen.number(),
            "its events have names of their own"
        );
    }

    #[test]
    fn a_file_is_remembered_before_anything_of_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        fs::write(&path, "one\n").unwrap();
        let store = At::new(None);
        let first = open_at(&path, &store).unwrap();
        // Nothing was committed when it ended, and the file has grown.
        fs::write(&path, "one\ntwo\n").unwrap();
        let again = open_at(&path, &store).unwrap();
        assert_eq!((again.at, again.seen.number()), (0, first.seen.number()));
    }
}
