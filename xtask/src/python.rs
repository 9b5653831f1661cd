//! A Python environment of our own in the cache, with exactly the packages of `requirements.txt`.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

/// The packages, by version and hash.
const REQUIREMENTS: &str = include_str!("../requirements.txt");
/// The environment's directory in the cache. The tests look for `bin/python` in it.
const DIRECTORY: &str = "python";
/// A copy of the requirements in the environment, written last: what bears it is whole.
const STAMP: &str = "installed.txt";

/// Makes the environment in the cache at `cache`, unless it is there. Two processes that call this at once make it once.
pub(crate) fn install(cache: &Path) -> Result<()> {
    let directory = cache.join(DIRECTORY);
    fs::create_dir_all(cache).with_context(|| format!("create {}", cache.display()))?;
    let lock = File::create(cache.join("python.lock")).context("create the lock in the cache")?;
    lock.lock().context("wait for another setup")?;
    if is_installed(&directory) {
        return Ok(());
    }
    eprintln!("installing PyMongo into {}", directory.display());
    create(&directory)?;
    fill(&directory)
}

fn is_installed(directory: &Path) -> bool {
    let stamp = fs::read_to_string(directory.join(STAMP));
    stamp.is_ok_and(|stamp| stamp == REQUIREMENTS) && directory.join("bin/python").exists()
}

fn create(directory: &Path) -> Result<()> {
    command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory))
        .context("create a Python environment: install Python 3.9 or newer with venv (Debian: python3-venv)")
}

fn fill(directory: &Path) -> Result<()> {
    let wanted = directory.join("requirements.txt");
    fs::write(&wanted, REQUIREMENTS).context("write the requirements")?;
    let mut pip = Command::new(directory.join("bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "install"])
        .args(["--require-hashes", "--only-binary", ":all:", "--requirement"])
        .arg(&wanted);
    command::run(&mut pip)
        .context("install PyMongo: it takes a network, and a Python that xtask/requirements.txt names")?;
    fs::rename(&wanted, directory.join(STAMP)).context("mark the Python environment as complete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_by_version_and_hash() {
        let statements = REQUIREMENTS.replace("\\\n", " ");
        for statement in statements.lines().filter(|line| !line.starts_with('#')) {
            assert!(statement.contains("==") && statement.contains("--hash=sha256:"), "{statement}");
        }
    }

    #[test]
    fn an_environment_counts_only_with_a_stamp_of_these_requirements() {
        let directory = std::env::temp_dir().join(format!("xtask-python-{}", std::process::id()));
        fs::create_dir_all(directory.join("bin")).unwrap();
        fs::write(directory.join("bin/python"), "").unwrap();
        assert!(!is_installed(&directory), "nothing says that it is whole");
        fs::write(directory.join(STAMP), "pymongo==0").unwrap();
        assert!(!is_installed(&directory), "it has other packages");
        fs::write(directory.join(STAMP), REQUIREMENTS).unwrap();
        assert!(is_installed(&directory));
        fs::remove_dir_all(directory).unwrap();
    }
}
