//! Runs other programs at the root of the workspace.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// One set of features for all builds: another set would compile most dependencies again.
pub(crate) const FULL: [&str; 3] = ["--workspace", "--features", "plimsoll/full"];

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a command to its end, without input and with visible output. Returns an error unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let words = words(command);
    let status = command
        .current_dir(root())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("run `{words}`"))?;
    ensure!(status.success(), "`{words}` failed ({status}): see its output above");
    Ok(())
}

/// The command as one would type it.
fn words(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The directory of cargo's builds.
pub(crate) fn target() -> Result<PathBuf> {
    let metadata =
        cargo().args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root()).output()?;
    ensure!(
        metadata.status.success(),
        "`cargo metadata` failed: {}",
        String::from_utf8_lossy(&metadata.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout)?;
    Ok(metadata["target_directory"].as_str().context("find target_directory in `cargo metadata`")?.into())
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(error.starts_with("`sh -c exit 3` failed"), "{error}");
        let error = run(&mut Command::new("/nowhere/to-be-found")).unwrap_err().to_string();
        assert_eq!(error, "run `to-be-found`");
    }
}
