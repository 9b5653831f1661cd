//! Starts this program again as a child process, with secrets kept out of its command line.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use plimsoll_process::log::last_lines;
use plimsoll_scenario::secret;

/// The path at which every process finds its own program. A file name could point to a newer build or to nothing; this path
/// always leads to the running program.
const SELF_EXE: &str = "/proc/self/exe";
/// The program's name in a list of processes.
const NAME: &str = "plimsoll";
/// The variable that holds the secret words of a command line, as a JSON list. Every user of a machine can read a process's
/// command line, but only its owner can read its environment.
const VARIABLE: &str = "PLIMSOLL_SECRET_WORDS";
/// The placeholder of a secret word in the command line, followed by its index in the list. No option accepts it as a value: a
/// program that does not know it, such as another version, fails instead of running without a server.
const STAND_IN: &str = "@PLIMSOLL_SECRET_WORDS.";
/// The largest number of log lines that [`last_words`] joins.
const LOG_LINES: usize = 3;

/// The path of this program, for starting it again.
pub fn program() -> &'static Path {
    Path::new(SELF_EXE)
}

/// A command that runs this program under its own name.
pub fn command() -> Command {
    let mut command = Command::new(SELF_EXE);
    command.arg0(NAME);
    command
}

/// Adds words to a command that runs this program; call it once. Secret words go where only the process owner can read them.
pub fn give(command: &mut Command, words: impl IntoIterator<Item = String>) {
    let (mut plain, mut secret) = (Vec::new(), Vec::new());
    for word in words {
        if word.contains('@') || secret::is_in(&word) {
            plain.push(format!("{STAND_IN}{}", secret.len()));
            secret.push(word);
        } else {
            plain.push(word);
        }
    }
    command.args(plain);
    if secret.is_empty() {
        // A child does not inherit the secret words of this process, because it cannot use them.
        command.env_remove(VARIABLE);
    } else {
        command.env(VARIABLE, Value::from(secret).to_string());
    }
}

/// The arguments of this process, with the secret words in their places.
pub fn arguments() -> impl Iterator<Item = OsString> {
    let secret = listed(env::var(VARIABLE).ok().as_deref());
    env::args_os().map(move |word| whole(word, &secret))
}

fn listed(variable: Option<&str>) -> Vec<String> {
    variable.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}

fn whole(word: OsString, secret: &[String]) -> OsString {
    let number = word.to_str().and_then(|word| word.strip_prefix(STAND_IN)?.parse::<usize>().ok());
    number.and_then(|number| secret.get(number)).map_or(word, OsString::from)
}

/// The last lines of a process's log, joined.
pub fn last_words(log: &Path) -> Option<String> {
    let end = last_lines(log);
    let lines: Vec<_> = end.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LOG_LINES)..].join(" ");
    let last = last.trim_start_matches("plimsoll: ").to_owned();
    (!last.is_empty()).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words as another process sees them, and as the program reads them.
    fn given(words: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut command = command();
        give(&mut command, words.iter().map(|&word| word.to_owned()));
        let variable = command.get_envs().find(|(name, _)| *name == VARIABLE).unwrap().1;
        let secret = listed(variable.and_then(|list| list.to_str()));
        let text = |word: OsString| word.into_string().unwrap();
        let meant = command.get_args().map(|word| text(whole(word.to_owned(), &secret))).collect();
        (command.get_args().map(|word| text(word.to_owned())).collect(), meant)
    }

    #[test]
    fn secret_words_stay_out_of_the_command_line_and_arrive_in_their_places() {
        let words = [
            "run",
            "--set",
            "seed=1",
            "--set",
            "http.auth.bearer.token=swordfish",
            "--set",
            "http.headers={x-any: swordfish}",
            "--hosts",
            "h:1, ann:swordfish@h:2",
            "--server",
            "mongodb://ann:swordfish@h/?a=\"b\"",
            "@PLIMSOLL_SECRET_WORDS.9",
        ];
        let (seen, meant) = given(&words);
        assert_eq!(meant, words);
        assert_eq!(seen[..4], words[..4]);
        assert!(!seen.concat().contains("swordfish"), "{seen:?}");
    }

    #[test]
    fn words_without_secrets_are_passed_unchanged() {
        let words =
            ["run", "--server", "mongodb://h:1/?directConnection=true", "--set", "stop={duration: 5s}"];
        assert_eq!(given(&words).0, words);
        let unknown = OsString::from("@PLIMSOLL_SECRET_WORDS.0");
        assert_eq!(whole(unknown.clone(), &listed(Some("no list"))), unknown);
    }

    #[test]
    fn the_program_is_this_one_and_has_its_own_name() {
        assert_eq!(program().canonicalize().unwrap(), env::current_exe().unwrap());
        let listed = command().arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("the_program_is_this_one"));
    }

    #[test]
    fn the_last_lines_of_a_log_are_joined() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(last_words(&log), None);
        std::fs::write(&log, "a\nplimsoll: b\n\nc\nd\n").unwrap();
        assert_eq!(last_words(&log).unwrap(), "b c d");
        std::fs::write(&log, "\n").unwrap();
        assert_eq!(last_words(&log), None);
    }
}
