//! Tests lost output: a full disk is reported and ends with 1, and a closed pipe is not a failure.

use std::fs::File;
use std::process::Stdio;

use crate::program::{plimsoll, stderr, stdout};

#[test]
fn a_full_disk_is_reported_once_and_ends_with_1() {
    for words in [&["schema"][..], &["scenarios"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = plimsoll().args(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert_eq!(said.matches("standard output cannot be written").count(), 1, "{words:?}: {said}");
        assert!(said.contains("is the disk full?"), "{words:?}: {said}");
    }
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = plimsoll().arg("schema").stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

/// Newcomers read the README, so it must name every command.
#[test]
fn the_readme_names_every_command_that_measures_and_how_to_install_the_program() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let help = stdout(&plimsoll().arg("--help").output().unwrap());
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<_> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| {
            !name.is_empty() && !["schema", "completions", "help", "server", "model"].contains(name)
        })
        .collect();
    assert!(commands.len() >= 15, "{commands:?}");
    for name in commands {
        assert!(
            readme.contains(&format!("plimsoll {name}")) || readme.contains(&format!("-- {name} ")),
            "{name}"
        );
    }
    assert!(readme.contains("cargo install --locked --path crates/plimsoll"));
}
