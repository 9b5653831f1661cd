//! One installation at a time, also of different processes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

use crate::Error;

/// The right to install something; it goes with the value.
#[derive(Debug)]
#[must_use = "without the lock two processes would install at once"]
pub struct Lock {
    /// The kernel gives the lock up when the file is closed, however its owner ends.
    _file: File,
}

impl Lock {
    /// Takes the lock `name` in the cache at `cache`, which is created. While another process has it, this one waits, after a
    /// call of `waiting`.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn take(cache: &Path, name: &str, waiting: impl FnOnce()) -> Result<Self, Error> {
        fs::create_dir_all(cache).map_err(Error::at(cache))?;
        let path = cache.join(name);
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(Error::at(&path))?;
        match file.try_lock() {
            Ok(()) => return Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => waiting(),
            Err(TryLockError::Error(source)) => return Err(Error::at(&path)(source)),
        }
        file.lock().map_err(Error::at(&path))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn the_second_is_told_that_it_waits_and_comes_after_the_first() {
        let cache = tempfile::tempdir().unwrap();
        let (order, (say, waits)) = (Mutex::new(Vec::new()), channel());
        let first = Lock::take(cache.path(), "lock", || {}).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _second = Lock::take(cache.path(), "lock", move || say.send(()).unwrap()).unwrap();
                order.lock().unwrap().push("second");
            });
            waits.recv().unwrap();
            order.lock().unwrap().push("first");
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), ["first", "second"]);
    }

    #[test]
    fn things_with_locks_of_their_own_do_not_wait_for_each_other() {
        let cache = tempfile::tempdir().unwrap();
        let _one = Lock::take(cache.path(), "one.lock", || {}).unwrap();
        let _other = Lock::take(cache.path(), "other.lock", || panic!("nobody has it")).unwrap();
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Lock::take(file.path(), "lock", || {}).unwrap_err();
        assert_eq!(error.path, file.path());
    }
}
