//! Fetches Java programs with Maven, and verifies every file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::fetch::{self, Output, RunError, Stream};
use crate::{CheckError, Checklist, Error};

/// The directory of the fetched files, inside the directory of the fetch.
pub const FILES: &str = "files";
/// The plugin that copies or unpacks files, with its version.
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1";

/// Whether the fetched files stay archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Archives, as Java loads them.
    Jars,
    /// The content of the archives, without their metadata.
    Unpacked,
}

/// A program in Maven Central.
#[derive(Clone, Copy, Debug)]
pub struct Project<'a> {
    /// The form of its files.
    pub form: Form,
    /// The text of a `pom.xml` that depends on the files.
    pub pom: &'a str,
    /// The expected files: SHA-256 and name, one a line.
    pub list: &'a str,
}

/// The files could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum MavenError {
    /// A file cannot be written.
    #[error(transparent)]
    Io(#[from] Error),
    /// Maven is missing.
    #[error("mvn cannot be run ({0}): install Maven (Debian: `apt-get install maven`)")]
    NoMaven(io::Error),
    /// Maven failed.
    #[error("Maven failed ({status}): is there a network? Its last lines:\n{tail}")]
    Failed {
        /// Maven's exit status.
        status: ExitStatus,
        /// The last lines of its output.
        tail: String,
    },
    /// The fetched files are not the expected ones.
    #[error("Maven fetched unexpected files ({0}): try again, or configure another mirror")]
    Altered(CheckError),
}

/// Fetches the files of a project into `files` inside the empty directory `partial`, and compares them with its list. Maven runs as
/// the program `maven` and writes its output to `log`. Calls `checking` before the comparison.
///
/// # Errors
/// [`MavenError`].
pub fn fetch(
    maven: OsString,
    project: Project<'_>,
    partial: &Path,
    log: &Path,
    checking: &mut dyn FnMut(),
) -> Result<(), MavenError> {
    fs::write(partial.join("pom.xml"), project.pom).map_err(Error::at(partial))?;
    let ignore = &mut |_: Output<'_>| {};
    let finished = fetch::run(command(maven, project.form, partial), Stream::Stdout, Some(log), ignore)
        .map_err(not_run)?;
    if !finished.status.success() {
        return Err(MavenError::Failed { status: finished.status, tail: finished.tail });
    }
    checking();
    Checklist::read(project.list).check(&partial.join(FILES)).map_err(|error| match error {
        CheckError::Io(error) => error.into(),
        other => MavenError::Altered(other),
    })
}

fn not_run(error: RunError) -> MavenError {
    match error {
        RunError::Program(source) => MavenError::NoMaven(source),
        RunError::Log(error) => error.into(),
    }
}

/// Runs Maven with a temporary repository, so that the user's repository stays unchanged. The user's settings
/// name the mirror.
fn command(maven: OsString, form: Form, partial: &Path) -> Command {
    let mut command = Command::new(maven);
    command.args(["--batch-mode", "--no-transfer-progress"]);
    match form {
        Form::Jars => command.arg(format!("{PLUGIN}:copy-dependencies")),
        Form::Unpacked => {
            command.arg(format!("{PLUGIN}:unpack-dependencies")).arg("-Dmdep.unpack.excludes=META-INF/**")
        }
    };
    command.arg(format!("-DoutputDirectory={FILES}"));
    command.arg(format!("-Dmaven.repo.local={}", partial.join("repository").display()));
    command.current_dir(partial);
    command
}
