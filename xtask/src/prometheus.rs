//! Installs Prometheus into the cache, for the test of the dashboards.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use plimsoll_install::{AtomicDir, Lock};

use crate::command;

/// The directory in the cache, with `usr/bin/prometheus` in it.
const DIRECTORY: &str = "prometheus";

/// Unpacks Debian's package of Prometheus into the cache, unless it is installed. apt verifies it with the
/// signatures of the distribution.
pub(crate) fn install(cache: &Path) -> Result<()> {
    let directory = cache.join(DIRECTORY);
    let _lock = Lock::take(cache, "prometheus.lock", || eprintln!("waiting for another setup"))?;
    if directory.join("usr/bin/prometheus").exists() {
        return Ok(());
    }
    eprintln!("installing Prometheus into {}", directory.display());
    let partial = AtomicDir::new(&directory)?;
    unpack(partial.path()).context(
        "install Prometheus: it needs apt-get, dpkg-deb and a network (other systems: unpack a release of Prometheus 2.42 or newer \
         so that prometheus/usr/bin/prometheus is in the cache)",
    )?;
    partial.commit().context("rename the directory of Prometheus")
}

fn unpack(directory: &Path) -> Result<()> {
    if download(directory).is_err() {
        command::run(Command::new("apt-get").args(["-qq", "update"]))?;
        download(directory)?;
    }
    let mut packages = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = packages.find(|path| path.extension().is_some_and(|ending| ending == "deb"));
    let package = package.context("find the package that apt-get fetched")?;
    command::run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(directory))?;
    fs::remove_file(&package)?;
    ensure!(directory.join("usr/bin/prometheus").exists(), "the package contains no usr/bin/prometheus");
    Ok(())
}

/// Downloads into `directory`: apt-get writes to its working directory.
fn download(directory: &Path) -> Result<()> {
    let mut apt = Command::new("sh");
    apt.args(["-c", "cd \"$0\" && apt-get -qq download prometheus 2>/dev/null"]).arg(directory);
    command::run(&mut apt)
}
