//! Whether two sides are the same thing under different words: then only noise is to be seen between them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::side::Side;
use plimsoll_run::reexec;
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::Subject;
use plimsoll_scenario::Scenario;

/// The port of a server whose address has none.
const PORT: &str = "27017";
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
    pub subject: &'a Subject,
}

/// Whether two sides send the same from the same program to the same system.
pub fn is_same(a: Thing<'_>, b: Thing<'_>) -> bool {
    sent(a.scenario) == sent(b.scenario)
        && plain(a.subject) == plain(b.subject)
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

/// A subject by addresses that have one spelling each.
fn plain(subject: &Subject) -> Subject {
    match subject {
        Subject::Database(choice) => Subject::Database(plain_choice(choice)),
        Subject::Service(url) => Subject::Service(plain_address(url)),
        Subject::Staged(staging, choice) => Subject::Staged(staging.clone(), plain_choice(choice)),
    }
}

fn plain_choice(choice: &Choice) -> Choice {
    match choice {
        Choice::Uri(uri) => Choice::Uri(plain_address(uri)),
        Choice::Several(all) => Choice::Several(all.iter().map(plain_choice).collect()),
        Choice::Any | Choice::Embedded(_) | Choice::Mongod => choice.clone(),
    }
}

/// An address in which this machine has one name and a server of MongoDB its port.
fn plain_address(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let hosts: Vec<String> = hosts.split(',').map(|host| plain_host(scheme, host)).collect();
    format!("{scheme}://{user}@{}{path}", hosts.join(","))
}

fn plain_host(scheme: &str, host: &str) -> String {
    // A port follows the last colon, but not one of those within the brackets of an IPv6 address.
    let parts = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let known = if scheme == "mongodb" { PORT } else { "" };
    let (name, port) = parts.unwrap_or((host, known));
    let name = name.to_ascii_lowercase();
    let name = if name == "localhost" { "127.0.0.1" } else { name.as_str() };
    format!("{name}:{port}")
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
    use plimsoll_host::Profile;

    use super::super::side::tests::side;
    use super::*;
    use crate::matrix::cells::tests::{SCENARIO, loaded};

    #[track_caller]
    fn check(change: impl Fn(&mut Scenario), expected: bool) {
        let (base, side) = (loaded(SCENARIO).scenario, Side::default());
        let mut other = base.clone();
        change(&mut other);
        let subject = Subject::Database(Choice::Any);
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
    fn one_server_under_two_names_is_one_server() {
        let uri = |uri: &str| plain(&Subject::Database(Choice::Uri(uri.into())));
        let url = |url: &str| plain(&Subject::Service(url.into()));
        for (one, other) in [
            ("mongodb://localhost:27017/?w=1", "mongodb://127.0.0.1/?w=1"),
            ("mongodb://ann:x@LOCALHOST:1", "mongodb://ann:x@127.0.0.1:1"),
            ("mongodb://localhost:1,h:2", "mongodb://127.0.0.1:1,H:2"),
        ] {
            assert_eq!(uri(one), uri(other));
        }
        assert_eq!(url("http://localhost:8080/v1"), url("http://127.0.0.1:8080/v1"));
        for (one, other) in [
            ("mongodb://localhost:1", "mongodb://localhost:2"),
            ("mongodb://localhost:1", "mongodb://[::1]:1"),
            ("mongodb://localhost/?w=1", "mongodb://localhost/?w=2"),
            ("mongodb://ann@localhost", "mongodb://localhost"),
        ] {
            assert_ne!(uri(one), uri(other));
        }
        let started = Choice::Embedded(Profile::Relaxed);
        assert_eq!(plain_choice(&started), started);
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
