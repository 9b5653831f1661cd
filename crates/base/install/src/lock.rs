//! Lets only one process at a time install a program.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

use crate::Error;

/// The exclusive right to install a program, until the lock is dropped.
#[derive(Debug)]
#[must_use = "without the lock two processes would install at once"]
pub struct Lock {
    /// The kernel releases the lock when the file is closed, also when its owner is killed.
    _file: File,
}

impl Lock {
    /// Takes the lock `name` in the directory `cache`, which it creates if missing. If another process holds
    /// the lock, calls `waiting` and waits.
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
    fn the_second_waits_for_the_first() {
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
    fn different_locks_do_not_wait_for_each_other() {
        let cache = tempfile::tempdir().unwrap();
        let _one = Lock::take(cache.path(), "one.lock", || {}).unwrap();
        let _other = Lock::take(cache.path(), "other.lock", || panic!("the lock is free")).unwrap();
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Lock::take(file.path(), "lock", || {}).unwrap_err();
        assert_eq!(error.path, file.path());
    }
}
