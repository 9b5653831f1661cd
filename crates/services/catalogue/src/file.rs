//! Reads the files that the settings name.

use std::fs;
use std::path::Path;

/// The largest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The content of a file that the settings name.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let size = fs::metadata(path).map_err(|error| format!("{path:?} cannot be read ({error})"))?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("{path:?} is larger than {FILE_BYTES_MAX} bytes: name the right file"));
    }
    fs::read(path).map_err(|error| format!("{path:?} cannot be read ({error})"))
}
