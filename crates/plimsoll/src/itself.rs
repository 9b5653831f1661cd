//! This program, to be started again as another process.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Where every process finds the program that it runs. A name would be gone once somebody has built the program anew or
/// removed it; this stays what was started.
const ITSELF: &str = "/proc/self/exe";
/// What a list of processes shows.
const NAME: &str = "plimsoll";

/// The program that this process runs, for a process that it starts.
pub fn program() -> &'static Path {
    Path::new(ITSELF)
}

/// The same as a command, under its own name.
pub fn command() -> Command {
    let mut command = Command::new(ITSELF);
    command.arg0(NAME);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_this_one_and_has_its_own_name() {
        assert_eq!(program().canonicalize().unwrap(), std::env::current_exe().unwrap());
        let listed = command().arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("the_program_is_this_one"));
    }
}
