//! Finds leftovers of interrupted runs and decides whether they may be dropped.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use bson::Bson;
use plimsoll_ledger::Receipt;

use crate::run_dir::{self, ASIDE};

/// The run IDs of earlier attempts of the run in `path`. A load is in one of the subdirectories `names` of
/// its attempt; an empty name is the attempt's own directory. The result is empty if an attempt found an
/// integrity violation, which the user should examine.
pub fn runs(path: &Path, names: &[&str]) -> Vec<String> {
    let tries = tries(path);
    let loads = || tries.iter().flat_map(move |one| names.iter().map(move |name| one.join(name)));
    if loads().any(|load| is_violated(&load)) {
        return Vec::new();
    }
    loads().filter_map(|load| run_dir::started(&load)).collect()
}

/// The directories of earlier attempts, renamed before `path` was created again.
fn tries(path: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return Vec::new();
    };
    let is_try = |it: &PathBuf| {
        let rest = it.file_name().and_then(OsStr::to_str).and_then(|it| it.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(ASIDE))
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_try).collect()
}

fn is_violated(load: &Path) -> bool {
    let integrity = run_dir::read_run(load).ok().and_then(|run| run.integrity);
    integrity.is_some_and(|integrity| !integrity.holds())
}

/// Whether a collection whose smallest and largest `_id` are `ends` holds only documents of one of the runs.
/// All receipts of a run in one form share their first bytes. So no other `_id` sorts between two of them.
pub fn is_all_of(ends: &[Bson; 2], runs: &[String]) -> bool {
    let [Some(first), Some(last)] = ends.each_ref().map(receipt) else { return false };
    let is_one_form = ends[0].element_type() == ends[1].element_type();
    let is_own = |run: &String| !run.is_empty() && first.starts_with(run) && last.starts_with(run);
    is_one_form && runs.iter().any(is_own)
}

/// The digits of the receipt in an `_id`, in either of its forms.
fn receipt(id: &Bson) -> Option<String> {
    match id {
        Bson::ObjectId(id) => Some(id.to_hex()),
        Bson::String(text) => text.parse::<Receipt>().ok().map(|receipt| receipt.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use plimsoll_ledger::Run as RunId;
    use plimsoll_measure::event::{Event, Sends};
    use plimsoll_measure::integrity::Integrity;
    use plimsoll_measure::run::Run;

    use super::*;
    use crate::session::id;

    const OURS: RunId = RunId { time_s: 1_795_000_000, tag: [1, 2, 3] };
    const LATER: RunId = RunId { time_s: 1_795_000_001, tag: [1, 2, 3] };

    fn object(run: RunId, number: u64) -> Bson {
        Bson::ObjectId(ObjectId::from_bytes(run.receipt(number).to_object_id()))
    }

    fn text(run: RunId, number: u64) -> Bson {
        Bson::String(run.receipt(number).to_string())
    }

    #[test]
    fn a_collection_belongs_to_a_run_if_both_ends_do() {
        let (ours, both, none, unknown) =
            (vec![id(OURS)], vec![id(OURS), id(LATER)], Vec::new(), vec![String::new()]);
        for (ends, runs, expected) in [
            ([object(OURS, 0), object(OURS, 900)], &ours, true),
            ([text(OURS, 0), text(OURS, 900)], &ours, true),
            ([object(OURS, 0), object(LATER, 900)], &ours, false),
            // Documents of others may lie between those of two runs.
            ([object(OURS, 0), object(LATER, 900)], &both, false),
            ([object(LATER, 0), object(LATER, 9)], &both, true),
            ([Bson::Int32(1), object(OURS, 900)], &ours, false),
            ([text(OURS, 0), object(OURS, 900)], &ours, false),
            ([text(OURS, 0), Bson::String("user1".into())], &ours, false),
            ([object(OURS, 0), object(OURS, 900)], &none, false),
            ([object(OURS, 0), object(OURS, 900)], &unknown, false),
        ] {
            assert_eq!(is_all_of(&ends, runs), expected, "{ends:?} {runs:?}");
        }
    }

    /// Writes the load of an earlier attempt, up to its interruption.
    fn keep(suite: &Path, load: &str, run: &str, lost: Option<u64>) {
        let dir = suite.join(load);
        fs::create_dir_all(&dir).unwrap();
        let event = Event::Started {
            id: run.into(),
            scenario: String::new(),
            title: String::new(),
            server: String::new(),
            wall_ms: 0,
            sends: Sends::default(),
        };
        fs::write(dir.join("events.ndjson"), serde_json::to_string(&event).unwrap() + "\n{\"cut").unwrap();
        if let Some(lost) = lost {
            let integrity = Some(Integrity { lost, ..Integrity::default() });
            let run = Run { integrity, ..Run::default() };
            fs::write(dir.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
        }
    }

    #[test]
    fn the_loads_of_earlier_attempts_are_found_unless_one_lost_documents() {
        let dir = tempfile::tempdir().unwrap();
        let found = || {
            let mut found = runs(&dir.path().join("004-a"), &["run", "warm-up"]);
            found.sort();
            found
        };
        assert!(found().is_empty());
        keep(dir.path(), "004-a.cut-1/warm-up", "aa", Some(0));
        keep(dir.path(), "004-a.cut-1/run", "bb", Some(0));
        // This attempt was killed.
        keep(dir.path(), "004-a.cut-2/run", "cc", None);
        keep(dir.path(), "004-ab.cut-1/run", "dd", None);
        keep(dir.path(), "004-a/run", "ee", None);
        assert_eq!(found(), ["aa", "bb", "cc"]);
        let own = runs(&dir.path().join("004-a.cut-1/run"), &[""]);
        assert!(own.is_empty(), "the run was started once: {own:?}");
        keep(dir.path(), "004-a.cut-1/run.cut-1", "gg", None);
        assert_eq!(runs(&dir.path().join("004-a.cut-1/run"), &[""]), ["gg"]);
        keep(dir.path(), "004-a.cut-3/run", "ff", Some(1));
        assert!(found().is_empty(), "an attempt with lost documents is evidence");
    }
}
