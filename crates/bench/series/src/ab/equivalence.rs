//! Decides whether two sides describe the same system, so that their difference is only noise.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::side::Side;
use plimsoll_run::reexec;
use plimsoll_run::system::Subject;
use plimsoll_scenario::Scenario;

/// The chunk size of the comparison of two programs, in bytes.
const CHUNK_LEN: usize = 64 * 1024;

/// The parts of a side that decide the load and its destination.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// Its description.
    pub side: &'a Side,
    /// Its scenario.
    pub scenario: &'a Scenario,
    /// The system that it loads.
    pub subject: &'a dyn Subject,
}

/// Whether two sides send equal loads with equal programs to one system.
pub fn is_same(a: Sender<'_>, b: Sender<'_>) -> bool {
    sent(a.scenario) == sent(b.scenario)
        && a.subject.canonical() == b.subject.canonical()
        && is_one_program(program(a.side), program(b.side))
}

/// A scenario without its texts and its server's address, because the subject contains the address.
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
    if let Some(workflow) = &mut sent.workflow {
        workflow.postgres = None;
    }
    sent
}

fn program(side: &Side) -> &Path {
    side.binary.as_deref().unwrap_or(reexec::program())
}

/// Whether two paths name one file, or equal files: two builds may be identical.
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
    use plimsoll_systems::DatabaseAt;

    #[track_caller]
    fn check(change: impl Fn(&mut Scenario), expected: bool) {
        let (base, side) = (loaded(SCENARIO).scenario, Side::default());
        let mut other = base.clone();
        change(&mut other);
        let subject = DatabaseAt(Choice::Any);
        let thing = |scenario| Sender { side: &side, scenario, subject: &subject };
        assert_eq!(is_same(thing(&base), thing(&other)), expected);
    }

    #[test]
    fn texts_without_effect_on_a_run_make_no_difference() {
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
