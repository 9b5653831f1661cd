//! A Prometheus in the cache, for the test of the dashboards.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use plimsoll_install::{AtomicDir, Lock};

use crate::command;

/// Its directory in the cache, with `usr/bin/prometheus` in it.
const DIRECTORY: &str = "prometheus";

/// Puts Debian's package of Prometheus into the cache, unless it is there: unpacked, not installed. apt checks it against the
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
        "install Prometheus: it takes apt-get, dpkg-deb and a network (other systems: unpack a release of Prometheus 2.42 or newer \
         so that prometheus/usr/bin/prometheus is in the cache)",
    )?;
    partial.commit().context("put Prometheus in its place")
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
    ensure!(directory.join("usr/bin/prometheus").exists(), "the package holds no usr/bin/prometheus");
    Ok(())
}

/// apt-get writes to the directory it stands in.
fn download(directory: &Path) -> Result<()> {
    let mut apt = Command::new("sh");
    apt.args(["-c", "cd \"$0\" && apt-get -qq download prometheus 2>/dev/null"]).arg(directory);
    command::run(&mut apt)
}
