//! Decides whether two sides describe the same system: then their difference is only noise.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::side::Side;
use plimsoll_run::reexec;
use plimsoll_run::system::Subject;
use plimsoll_scenario::Scenario;

/// So much of two programs is held against each other at once, in bytes.
const CHUNK_LEN: usize = 64 * 1024;

/// A side, as far as it decides what is measured.
#[derive(Clone, Copy, Debug)]
pub struct Thing<'a> {
    /// Its words.
    pub side: &'a Side,
    /// Its scenario.
    pub scenario: &'a Scenario,
    /// What it loads.
    pub subject: &'a dyn Subject,
}

/// Whether two sides send the same from the same program to the same system.
pub fn is_same(a: Thing<'_>, b: Thing<'_>) -> bool {
    sent(a.scenario) == sent(b.scenario)
        && a.subject.canonical() == b.subject.canonical()
        && is_one_program(program(a.side), program(b.side))
}

/// A scenario without what no run depends on, and without where the load goes: the subject says that.
fn sent(scenario: &Scenario) -> Scenario {
    let mut sent = Scenario {
        title: String::new(),
        question: None,
        server: None,
        servers: Vec::new(),
        ..scenario.clone()
    };
    if let Some(http) = &mut sent.http {
        http.url.clear();
    }
    sent
}

fn program(side: &Side) -> &Path {
    side.binary.as_deref().unwrap_or(reexec::program())
}

/// Whether two paths lead to one file, which may have several names, or to a copy of it: a build that changed nothing.
fn is_one_program(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    let is_one_file = a == b || identity(a).is_some_and(|it| Some(it) == identity(b));
    is_one_file || has_same_bytes(a, b).unwrap_or(false)
}

fn has_same_bytes(a: &Path, b: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(a)?, File::open(b)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let [mut one, mut other] = [one, other].map(|file| BufReader::with_capacity(CHUNK_LEN, file));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let length = left.len().min(right.len());
        if length == 0 || left[..length] != right[..length] {
            return Ok(left.len() == right.len() && length == 0);
        }
        one.consume(length);
        other.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::super::side::tests::side;
    use super::*;
    use crate::matrix::cells::tests::{SCENARIO, loaded};
    use plimsoll_run::server_provisioning::Choice;
    use plimsoll_run::system::DatabaseAt;

    #[track_caller]
    fn check(change: impl Fn(&mut Scenario), expected: bool) {
        let (base, side) = (loaded(SCENARIO).scenario, Side::default());
        let mut other = base.clone();
        change(&mut other);
        let subject = DatabaseAt(Choice::Any);
        let thing = |scenario| Thing { side: &side, scenario, subject: &subject };
        assert_eq!(is_same(thing(&base), thing(&other)), expected);
    }

    #[test]
    fn words_that_no_run_depends_on_make_no_other_thing() {
        check(|_| (), true);
        check(|it| (it.title, it.question) = ("other".into(), Some("why?".into())), true);
        check(|it| it.server = Some("mongodb://h".into()), true);
        check(|it| it.seed += 1, false);
        check(|it| it.collection.push('2'), false);
    }

    #[test]
    fn a_file_under_two_names_or_copied_is_one_program() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, copy, other, longer] = ["a", "b", "c", "d", "e"].map(|name| dir.path().join(name));
        let text = "x".repeat(2 * CHUNK_LEN);
        fs::write(&file, &text).unwrap();
        fs::copy(&file, &copy).unwrap();
        fs::write(&other, text[1..].to_owned() + "y").unwrap();
        fs::write(&longer, text.clone() + "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(is_one_program(&file, &link) && is_one_program(&file, &copy));
        assert!(!is_one_program(&file, &other) && !is_one_program(&file, &longer));
        let own = std::env::current_exe().unwrap();
        let named = side(&[&format!("binary={}", own.display())]).unwrap();
        assert!(is_one_program(program(&named), program(&Side::default())));
        assert!(!is_one_program(program(&named), &dir.path().join("nowhere")));
    }
}
