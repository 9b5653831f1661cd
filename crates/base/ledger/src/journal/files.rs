//! Appends to logs, and writes files that appear complete or not at all.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The storage of a worker's journal: an append-only sequence of bytes.
pub trait Log {
    /// Appends bytes. The next append overwrites the rest of a failed one.
    ///
    /// # Errors
    /// When the storage fails; a full storage gives [`io::ErrorKind::StorageFull`].
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the appended bytes survive a power failure.
    ///
    /// # Errors
    /// When the storage fails.
    fn sync(&mut self) -> io::Result<()>;
}

/// A log in a file.
#[derive(Debug)]
pub struct FileLog {
    file: File,
    length: u64,
}

impl FileLog {
    /// A log in a new file.
    ///
    /// # Errors
    /// The file exists already or cannot be created.
    pub fn create(path: &Path) -> io::Result<FileLog> {
        Ok(FileLog { file: File::create_new(path)?, length: 0 })
    }
}

impl Log for FileLog {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.length))?;
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The journal of one worker.
pub(super) fn journal_path(dir: &Path, worker: u64) -> PathBuf {
    dir.join(format!("worker-{worker:05}.journal"))
}

/// The workers that have a journal here, ascending.
pub(super) fn journals(dir: &Path) -> io::Result<Vec<u64>> {
    let mut workers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let digits = name.to_str().and_then(|n| n.strip_prefix("worker-")?.strip_suffix(".journal"));
        workers.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
    }
    workers.sort_unstable();
    Ok(workers)
}

/// Writes a file so that it appears completely and durably, or not at all.
pub(super) fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = io::BufWriter::with_capacity(1 << 16, File::create(&draft)?);
    fill(&mut file)?;
    file.into_inner()?.sync_all()?;
    fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partially_written_file_does_not_appear() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        write_whole(&path, |file| file.write_all(b"first")).unwrap();
        let half = write_whole(&path, |file| {
            file.write_all(b"sec")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(half.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }

    #[test]
    fn the_rest_of_a_failed_append_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = FileLog::create(&path).unwrap();
        log.append(b"one ").unwrap();
        log.file.write_all(b"par").unwrap();
        log.append(b"two ").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one two ");
    }

    #[test]
    fn journals_are_listed_by_worker() {
        let dir = tempfile::tempdir().unwrap();
        for worker in [12, 3, 100_000] {
            let mut log = FileLog::create(&journal_path(dir.path(), worker)).unwrap();
            log.append(b"x").unwrap();
        }
        fs::write(dir.path().join("worker-x.journal"), b"").unwrap();
        assert_eq!(journals(dir.path()).unwrap(), [3, 12, 100_000]);
    }
}
