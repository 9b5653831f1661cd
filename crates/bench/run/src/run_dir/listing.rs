//! Lists the runs in a directory, with their labels and their sizes.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use plimsoll_measure::event::Event;
use plimsoll_measure::run::{FORMAT, Run};

use super::{EVENTS, LABEL, read_run, runs_in, started_event};

/// The longest label, in characters.
const LABEL_LEN_MAX: usize = 100;
/// The unit of a file's blocks, in bytes.
const BLOCK_BYTES: u64 = 512;

/// A run directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The directory.
    pub path: PathBuf,
    /// The start, in milliseconds since 1970.
    pub started_ms: u64,
    /// The scenario.
    pub name: String,
    /// The user's label.
    pub label: Option<String>,
    /// The bytes on disk.
    pub bytes: u64,
    /// The progress of the run.
    pub state: State,
}

/// The progress of a run.
#[derive(Clone, Debug)]
pub enum State {
    /// It ended, with this summary.
    Ended(Box<Run>),
    /// It was killed: it has events and no summary.
    Cut,
    /// A process writes it now.
    Running,
}

/// The runs directly below a directory, the latest first. Directories that are no runs of Plimsoll are left out.
pub fn list(directory: &Path) -> Vec<Listed> {
    let mut runs: Vec<Listed> = runs_in(directory).into_iter().filter_map(listed).collect();
    runs.sort_by(|one, other| (other.started_ms, &other.path).cmp(&(one.started_ms, &one.path)));
    runs
}

fn listed(path: PathBuf) -> Option<Listed> {
    let (label, bytes) = (label(&path), bytes(&path));
    if let Some(run) = read_run(&path).ok().filter(|run| run.format == FORMAT && !run.id.is_empty()) {
        let (started_ms, name) = (run.started_ms, run.scenario.name.clone());
        return Some(Listed { path, started_ms, name, label, bytes, state: State::Ended(Box::new(run)) });
    }
    let Event::Started { scenario, wall_ms, .. } = started_event(&path)? else { return None };
    let state = if is_written(&path) { State::Running } else { State::Cut };
    Some(Listed { path, started_ms: wall_ms, name: scenario, label, bytes, state })
}

/// Whether a process writes the run now: it holds a lock on the events.
fn is_written(path: &Path) -> bool {
    File::open(path.join(EVENTS))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The label of a run.
pub fn label(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path.join(LABEL)).ok()?;
    text.lines().next().filter(|line| !line.is_empty()).map(str::to_owned)
}

/// Labels a run; an empty text removes the label.
///
/// # Errors
/// When the text is not one short line, or the file cannot be written.
pub fn set_label(path: &Path, text: &str) -> anyhow::Result<()> {
    let text = text.trim();
    ensure!(
        text.chars().count() <= LABEL_LEN_MAX && !text.chars().any(char::is_control),
        "a label is one line of at most {LABEL_LEN_MAX} characters: shorten it"
    );
    let file = path.join(LABEL);
    let here = || format!("write {}", file.display());
    if text.is_empty() {
        return if file.exists() { fs::remove_file(&file).with_context(here) } else { Ok(()) };
    }
    fs::write(&file, format!("{text}\n")).with_context(here)
}

/// The bytes on disk of a directory and everything in it. Links are not followed.
fn bytes(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    let own = metadata.blocks() * BLOCK_BYTES;
    if !metadata.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    own + entries.map(|entry| bytes(&entry.path())).sum::<u64>()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use plimsoll_measure::event::Sends;
    use plimsoll_measure::run::ScenarioFacts;

    /// Writes a run that ended.
    pub fn ended(directory: &Path, name: &str, started_ms: u64) -> PathBuf {
        let path = directory.join(name);
        fs::create_dir_all(&path).unwrap();
        let scenario = ScenarioFacts { name: name.into(), ..ScenarioFacts::default() };
        let run = Run { format: FORMAT, id: name.into(), started_ms, scenario, ..Run::default() };
        fs::write(path.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
        path
    }

    /// Writes a run without its end.
    pub fn begun(directory: &Path, name: &str, wall_ms: u64) -> PathBuf {
        let path = directory.join(name);
        fs::create_dir_all(&path).unwrap();
        let (id, scenario) = (name.to_owned(), name.to_owned());
        let (title, server, sends) = (String::new(), String::new(), Sends::default());
        let event = Event::Started { id, scenario, title, server, wall_ms, sends };
        fs::write(path.join(EVENTS), serde_json::to_string(&event).unwrap() + "\n").unwrap();
        path
    }

    #[test]
    fn runs_are_listed_the_latest_first_and_other_directories_are_not() {
        let dir = tempfile::tempdir().unwrap();
        ended(dir.path(), "old", 1);
        ended(dir.path(), "new", 3);
        begun(dir.path(), "cut", 2);
        fs::create_dir(dir.path().join("notes")).unwrap();
        fs::create_dir(dir.path().join("foreign")).unwrap();
        fs::write(dir.path().join("foreign/run.json"), "{\"id\": 5}").unwrap();
        let found = list(dir.path());
        assert_eq!(found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["new", "cut", "old"]);
        assert!(matches!(found[1].state, State::Cut) && found.iter().all(|it| it.bytes > 0));
    }

    #[test]
    fn a_run_that_is_being_written_is_running() {
        let dir = tempfile::tempdir().unwrap();
        let path = begun(dir.path(), "now", 1);
        let writer = File::options().append(true).open(path.join(EVENTS)).unwrap();
        writer.try_lock().unwrap();
        assert!(matches!(list(dir.path())[0].state, State::Running));
        drop(writer);
        assert!(matches!(list(dir.path())[0].state, State::Cut));
    }

    #[test]
    fn a_label_is_one_short_line_and_can_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = ended(dir.path(), "a", 1);
        set_label(&path, " before the upgrade ").unwrap();
        assert_eq!(label(&path).as_deref(), Some("before the upgrade"));
        for text in ["two\nlines", &"x".repeat(101)] {
            assert!(set_label(&path, text).unwrap_err().to_string().contains("one line of at most 100"));
        }
        set_label(&path, "").unwrap();
        assert_eq!(label(&path), None);
    }
}
