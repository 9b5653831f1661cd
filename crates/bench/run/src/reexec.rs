//! Starts this program again as a child process, with secrets kept out of its command line.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use plimsoll_process::log::last_lines;
use plimsoll_scenario::secret;

/// Where every process finds the program that it runs. A name would be gone once somebody has built the program anew or
/// removed it; this stays what was started.
const ITSELF: &str = "/proc/self/exe";
/// The program's name in a list of processes.
const NAME: &str = "plimsoll";
/// The variable that holds the secret words of a command line, a list in JSON: everybody on a machine can read the command line
/// of a process, and its environment only who owns it.
const VARIABLE: &str = "PLIMSOLL_SECRET_WORDS";
/// The placeholder of such a word in the command line, before its number in the list. It is a value that no
/// option takes: a program
/// that knows nothing of it, as another version may, refuses it and does not go on without a server.
const STAND_IN: &str = "@PLIMSOLL_SECRET_WORDS.";
/// The number of quoted log lines.
const LOG_LINES: usize = 3;

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

/// Gives a command that runs this program its words, once: those that hold secrets where only its owner can read them.
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
        // Those that this process was given itself are of no use to another.
        command.env_remove(VARIABLE);
    } else {
        command.env(VARIABLE, Value::from(secret).to_string());
    }
}

/// The words that this process was started with, with the secret ones in their places.
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

/// The last lines that a process said, as one.
pub fn last_words(log: &Path) -> Option<String> {
    let told = last_lines(log);
    let lines: Vec<_> = told.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LOG_LINES)..].join(" ");
    let last = last.trim_start_matches("plimsoll: ").to_owned();
    (!last.is_empty()).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as another process sees them, and as it understands them.
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
    fn secret_words_are_not_in_the_command_line_and_arrive_in_their_places() {
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
    fn words_without_secrets_are_seen_as_they_are() {
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
    fn the_last_lines_of_a_log_are_told_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(last_words(&log), None);
        std::fs::write(&log, "a\nplimsoll: b\n\nc\nd\n").unwrap();
        assert_eq!(last_words(&log).unwrap(), "b c d");
        std::fs::write(&log, "\n").unwrap();
        assert_eq!(last_words(&log), None);
    }
}
