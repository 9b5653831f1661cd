//! Installs other products into the cache, for the tests: servers that speak MongoDB's protocol, peers of the workflow engine, and a browser.

mod browser;
mod ferretdb;
mod mongo_java;
mod workflow;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use plimsoll_install::{AtomicDir, Lock, digest, sibling};

use crate::command;

/// The directory of the workflow engine's peers in the cache.
pub(crate) const WORKFLOW: &str = "workflow-peers";
/// The name of a file with the pinned versions and digests, which is written last: a directory with the same file is complete.
const STAMP: &str = "installed.txt";

/// A program that the tests start.
struct Peer {
    /// The name of the product, with its version.
    name: &'static str,
    /// Its directory in the cache.
    directory: &'static str,
    /// The pinned versions and digests.
    pin: String,
    /// The time that a cold installation takes, for the message.
    takes: &'static str,
    /// Installs it into an empty directory, and writes the output of the build to a log.
    make: fn(&Path, log: &Path) -> Result<()>,
}

/// Installs all peers, unless they are installed.
pub(crate) fn install(cache: &Path) -> Result<()> {
    let browser = cfg!(target_arch = "x86_64").then(browser::peer);
    [ferretdb::peer(), mongo_java::peer()].iter().chain(&browser).try_for_each(|peer| peer.install(cache))
}

/// Installs the peers of the workflow engine, unless they are installed.
pub(crate) fn install_workflow(cache: &Path) -> Result<()> {
    workflow::peer().install(cache)
}

impl Peer {
    /// Installs the server, unless it is installed with the same pins. Two concurrent calls install it once.
    fn install(&self, cache: &Path) -> Result<()> {
        let target = cache.join(self.directory);
        let lock = format!("{}.lock", self.directory);
        let _lock = Lock::take(cache, &lock, || eprintln!("waiting for another setup"))?;
        if fs::read_to_string(target.join(STAMP)).is_ok_and(|stamp| stamp == self.pin) {
            return Ok(());
        }
        eprintln!("installing {} into {} ({})", self.name, target.display(), self.takes);
        let partial = AtomicDir::new(&target)?;
        (self.make)(partial.path(), &sibling(&target, "log"))
            .with_context(|| format!("install {}", self.name))?;
        fs::write(partial.path().join(STAMP), &self.pin).context("mark the installation as complete")?;
        partial.commit().with_context(|| format!("rename the directory of {}", self.name))
    }
}

/// A package of npm.
#[derive(Clone, Copy)]
struct Package {
    /// Its name and version.
    name: &'static str,
    /// The name of its archive.
    archive: &'static str,
    /// The digest of its archive.
    sha256: &'static str,
}

impl Package {
    /// Fetches and verifies the package in `directory`, and unpacks its content into `target`, which is made.
    fn unpack(&self, directory: &Path, target: &Path) -> Result<()> {
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", "--pack-destination"]).arg(directory).arg(self.name);
        let hint = "it needs Node 20 with npm, and a network (Debian: `apt-get install npm`)";
        command::run(npm.stdout(Stdio::null())).context(hint)?;
        let archive = directory.join(self.archive);
        let (sum, _) = digest::of_file(&archive).with_context(|| format!("read {}", archive.display()))?;
        ensure!(
            sum == self.sha256,
            "{} has the digest {sum} instead of {}: try another registry",
            self.name,
            self.sha256
        );
        fs::create_dir_all(target).with_context(|| format!("make {}", target.display()))?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&archive).arg("-C").arg(target).arg("--strip-components=1");
        command::run(&mut tar)?;
        fs::remove_file(&archive).with_context(|| format!("remove {}", archive.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn peer(pin: &str, make: fn(&Path, &Path) -> Result<()>) -> Peer {
        Peer { name: "it", directory: "it", pin: pin.to_owned(), takes: "a moment", make }
    }

    #[test]
    fn a_server_is_installed_once_for_each_pin_and_never_in_part() {
        let cache = std::env::temp_dir().join(format!("xtask-peers-{}", std::process::id()));
        let whole = |directory: &Path, _: &Path| Ok(fs::write(directory.join("program"), "whole")?);
        let half = |directory: &Path, _: &Path| {
            fs::write(directory.join("program"), "half")?;
            bail!("it is raining")
        };
        let program = || fs::read_to_string(cache.join("it/program")).unwrap_or_default();
        let error = peer("1.0", half).install(&cache).unwrap_err();
        assert_eq!((format!("{error:#}").as_str(), program().as_str()), ("install it: it is raining", ""));
        peer("1.0", whole).install(&cache).unwrap();
        peer("1.0", half).install(&cache).unwrap();
        assert_eq!(program(), "whole", "an installed server is not installed again");
        assert!(peer("2.0", half).install(&cache).is_err(), "another pin is installed anew");
        assert_eq!(program(), "whole", "the old installation stays until the new one is complete");
        fs::remove_dir_all(cache).unwrap();
    }
}
