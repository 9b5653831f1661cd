//! Resolves a suite: checks every test before any run starts.

use anyhow::{Context, ensure};
use plimsoll_measure::duration::Span;
use plimsoll_measure::suite as results;

use plimsoll_run::system::Registry;

use super::kind::{self, Job, Kind};
use super::read::Loaded;
use super::typed::{Existing, Row};
use crate::cpus::Cpus;
use plimsoll_scenario::nearest;
use serde_json::{Value, json};

/// The maximum number of tests of a suite.
const TESTS_MAX: usize = 500;
/// The maximum number of repetitions of a test.
const REPETITIONS_MAX: u32 = 100;
/// The longest name of a test, in characters.
const NAME_MAX: usize = 80;
/// The default timeout.
const TIMEOUT: Span = Span::from_secs(3_600);
/// The default warm-up of tests that support one.
pub(super) const WARM_UP: Span = Span::from_secs(2);

/// A resolved test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its name, unique in the suite.
    pub name: String,
    /// Its row, completed by the defaults.
    pub row: Row,
    /// Its kind.
    pub kind: &'static dyn Kind,
    /// The work of its runs.
    pub job: Job,
    /// Its number of runs.
    pub repetitions: u32,
    /// The longest time of its load.
    pub timeout: Span,
    /// The CPUs of its load.
    pub client_cpus: Option<Cpus>,
    /// The CPUs of a server that the suite starts for it.
    pub server_cpus: Option<Cpus>,
}

/// The options for every test.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// The server of rows without one.
    pub server: Option<String>,
    /// The rule of rows without one.
    pub existing: Option<Existing>,
    /// The repetitions, instead of those of the rows.
    pub repetitions: Option<u32>,
    /// The tests to run, by name or by a pattern in which `*` stands for any letters; all if empty.
    pub only: Vec<String>,
}

/// Resolves the requested tests.
///
/// # Errors
/// When a value is invalid. The error names the first, and its place.
pub fn build(loaded: &Loaded, arguments: &Arguments, registry: Registry) -> anyhow::Result<Vec<Test>> {
    let tests = &loaded.suite.tests;
    ensure!(!tests.is_empty(), "{}: a suite without a test: add one row a test", loaded.name);
    ensure!(tests.len() <= TESTS_MAX, "{}: {} tests, and {TESTS_MAX} at most", loaded.name, tests.len());
    check_names(loaded)?;
    check_only(loaded, &arguments.only)?;
    let is_asked = |row: &Row| {
        let asks = |name: &String| arguments.only.iter().any(|pattern| matches(pattern, name));
        arguments.only.is_empty() || row.name.as_ref().is_some_and(asks)
    };
    let asked = tests.iter().zip(&loaded.places).filter(|(row, _)| is_asked(row));
    let build = |(row, place): (&Row, &String)| {
        let name = row.name.as_deref().unwrap_or_default();
        test(loaded, row, arguments, registry).with_context(|| format!("{place}, test {name}"))
    };
    asked.map(build).collect()
}

/// Checks names: they become directories, and must be unique.
fn check_names(loaded: &Loaded) -> anyhow::Result<()> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    for (index, (row, place)) in loaded.suite.tests.iter().zip(&loaded.places).enumerate() {
        let name = row.name.as_deref().unwrap_or_default();
        ensure!(!name.is_empty(), "{place}: a test without a name: give it one in the column `name`");
        ensure!(
            name.chars().all(plain) && !name.starts_with('.') && name.len() <= NAME_MAX,
            "{place}: `{name}` is not a name for a directory: use at most {NAME_MAX} letters, digits, `-`, `_` and `.`"
        );
        let before = loaded.suite.tests[..index].iter().position(|other| other.name == row.name);
        if let Some(before) = before {
            anyhow::bail!(
                "{place}: there is a test `{name}` already ({}): give each its own name",
                loaded.places[before]
            );
        }
    }
    Ok(())
}

/// Whether a name matches a pattern: `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(left) = name.strip_prefix(start) else { return false };
    (0..=left.len()).any(|at| left.is_char_boundary(at) && matches(rest, &left[at..]))
}

fn check_only(loaded: &Loaded, only: &[String]) -> anyhow::Result<()> {
    let names: Vec<&str> = loaded.suite.tests.iter().filter_map(|row| row.name.as_deref()).collect();
    for name in only {
        if !names.iter().any(|known| matches(name, known)) {
            let near =
                nearest(name, &names).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            anyhow::bail!("--only {name}: there is no such test{near}");
        }
    }
    Ok(())
}

fn test(loaded: &Loaded, row: &Row, arguments: &Arguments, registry: Registry) -> anyhow::Result<Test> {
    let merged = row.or(&loaded.suite.defaults)?;
    let row = Row {
        server: merged.server.clone().or_else(|| arguments.server.clone()),
        existing: merged.existing.or(arguments.existing),
        repetitions: arguments.repetitions.or(merged.repetitions),
        ..merged
    };
    let kind = kind::of(&row)?;
    let row = kind.settled(row, &loaded.base);
    let (repetitions, timeout) = (row.repetitions.unwrap_or(1), row.timeout.unwrap_or(TIMEOUT));
    check_numbers(&row, repetitions, timeout)?;
    let cpus = |text: &Option<String>, column: &str| -> anyhow::Result<Option<Cpus>> {
        let Some(text) = text else { return Ok(None) };
        let cpus: Cpus = text.parse().context(column.to_owned())?;
        cpus.check().context(column.to_owned())?;
        Ok(Some(cpus))
    };
    Ok(Test {
        name: row.name.clone().unwrap_or_default(),
        client_cpus: cpus(&row.client_cpus, "client_cpus")?,
        server_cpus: cpus(&row.server_cpus, "server_cpus")?,
        job: prepare(kind, &row, registry)?,
        kind,
        row,
        repetitions,
        timeout,
    })
}

/// Prepares the work of a row. A row without a warm-up gets the default one, if the test supports it.
fn prepare(kind: &dyn Kind, row: &Row, registry: Registry) -> anyhow::Result<Job> {
    if row.warm_up.is_some() {
        return kind.prepare(row, registry);
    }
    let warmed = Row { warm_up: Some(WARM_UP), ..row.clone() };
    kind.prepare(&warmed, registry).or_else(|_| kind.prepare(row, registry))
}

fn check_numbers(row: &Row, repetitions: u32, timeout: Span) -> anyhow::Result<()> {
    ensure!(
        row.reference.is_none() || row.reference_of.is_some(),
        "reference: give its source with `reference_of`: whose figure, on which machine, from when"
    );
    ensure!(
        (1..=REPETITIONS_MAX).contains(&repetitions),
        "repetitions {repetitions}: give a number from 1 to {REPETITIONS_MAX}"
    );
    for (column, number) in [("in_flight", row.in_flight), ("threads", row.threads)] {
        ensure!(number != Some(0), "{column} 0: give a number over 0, or leave it out");
    }
    for (column, span) in [("duration", row.duration), ("timeout", Some(timeout))] {
        ensure!(span.is_none_or(|span| span.as_ns() > 0), "{column} 0s: give a time over 0");
    }
    let measured = row.duration.map_or(0, Span::as_ns).saturating_add(row.warm_up.map_or(0, Span::as_ns));
    ensure!(
        measured < timeout.as_ns(),
        "timeout {timeout}: the load alone takes {}; give more",
        Span::from_ns(measured)
    );
    Ok(())
}

/// The suite in the form for its directory, so that it can continue from any working directory.
pub fn kept(loaded: &Loaded, tests: &[Test]) -> Value {
    let tests: Vec<_> = tests.iter().map(|test| test.row.tree()).collect();
    json!({"title": title(loaded), "question": loaded.suite.question, "tests": tests})
}

/// The suite's title, or its name.
pub fn title(loaded: &Loaded) -> String {
    loaded.suite.title.clone().unwrap_or_else(|| loaded.name.clone())
}

/// A test in the results, before its first run.
pub fn summary(test: &Test) -> results::Test {
    results::Test {
        name: test.name.clone(),
        kind: test.kind.kind(),
        what: test.job.what.clone(),
        hash: test.job.hash.clone(),
        settings: test.row.settings(),
        repetitions: test.repetitions,
        warnings: test.job.warnings.clone(),
        reference: test.row.reference.map(|rate_per_s| results::Reference {
            rate_per_s,
            of: test.row.reference_of.clone().unwrap_or_default(),
        }),
        ..results::Test::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::read::parse;
    use super::*;

    use crate::suite::kind::TEST_REGISTRY;

    fn built(text: &str, arguments: &Arguments) -> anyhow::Result<Vec<Test>> {
        build(&parse("s", "s.csv", text, PathBuf::from(".")).unwrap(), arguments, TEST_REGISTRY)
    }

    #[test]
    fn a_star_in_only_stands_for_any_letters() {
        for (pattern, name, expected) in [
            ("*-smoke", "mongo-burst-smoke", true),
            ("mongo-*", "mongo-burst-smoke", true),
            ("mongo-*-smoke", "postgres-burst-smoke", false),
            ("*capacity*", "mongo-capacity-c1", true),
            ("mongo", "mongo-capacity-c1", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_row_becomes_the_arguments_of_a_run() {
        let text = "name,scenario,duration,in_flight,threads,overrides,server,cache\n\
                    a,bulk-baseline,9s,7,1,write_concern.w=1,embedded:relaxed,256MB\n";
        let test =
            built(text, &Arguments { repetitions: Some(3), ..Arguments::default() }).unwrap().remove(0);
        let joined = test.job.arguments.join(" ");
        assert_eq!(
            joined,
            "run bulk-baseline --set write_concern.w=1 --set phases.0.stop={duration: 9s} --set workers=1 --set \
             cache=256MB --set phases.0.load.insert.arrivals.closed.writers=7 --set cache=null"
        );
        assert_eq!((test.repetitions, test.job.cache_bytes), (3, Some(256_000_000)));
        let (warm_up, collection) = test.job.warm_up_of(1).unwrap();
        assert!(warm_up.join(" ").contains("phases.0.stop={duration: 2s}"), "{warm_up:?}");
        assert!(warm_up.contains(&"--as-warm-up".to_owned()), "{warm_up:?}");
        assert_eq!(collection.unwrap().to_string(), "plimsoll.bulk_baseline_warm_up");
        assert_eq!(
            built(text, &Arguments { only: vec!["a".into()], ..Arguments::default() }).unwrap().len(),
            1
        );
    }

    #[test]
    fn a_run_with_server_faults_starts_its_own_server() {
        let test = built("name,scenario\na,hang\n", &Arguments::default()).unwrap().remove(0);
        assert_eq!(test.job.host, kind::Host::Run(None));
        assert_eq!(test.job.warm_up_of(1), None);
    }

    #[test]
    fn invalid_values_are_refused_with_their_place() {
        let uri = "mongodb://h";
        for (text, part) in [
            ("name,scenario\n", "a suite without a test"),
            ("name,scenario\na,rate\na,rate\n", "s.csv, line 3: there is a test `a` already (s.csv, line 2)"),
            ("name,scenario\n,rate\n", "s.csv, line 2: a test without a name"),
            ("name,scenario\na/b,rate\n", "`a/b` is not a name for a directory"),
            ("name,scenario\na,\n", "s.csv, line 2, test a: it names no scenario"),
            ("name,scenario,pipeline\na,rate,x\n", "it names a scenario and a pipeline"),
            ("name,pipeline\na,x\n", "no pipeline `x` exists: name a YAML file"),
            ("name,scenario\na,bulk-basline\n", "the nearest shipped one is `bulk-baseline`"),
            ("name,scenario\na,strategies\n", "strategies is a matrix of runs, but a test is one run"),
            ("name,scenario,repetitions\na,rate,0\n", "repetitions 0: give a number from 1 to 100"),
            ("name,scenario,repetitions\na,rate,101\n", "repetitions 101: give a number from 1 to 100"),
            ("name,scenario,threads\na,rate,0\n", "threads 0: give a number over 0"),
            ("name,scenario,duration\na,rate,0s\n", "duration 0s: give a time over 0"),
            (
                "name,scenario,duration,timeout\na,bulk-baseline,9s,5s\n",
                "timeout 5s: the load alone takes 9s",
            ),
            (
                "name,scenario,executor\na,bulk-baseline,fixed\n",
                "executor fixed: a scenario has one OS thread per worker",
            ),
            ("name,scenario,overrides\na,bulk-baseline,phases.7.stop=1\n", "`phases` has no `7`"),
            ("name,scenario,client_cpus\na,bulk-baseline,x\n", "`x` is not a list of CPUs"),
            (
                "name,scenario,server_cpus\na,bulk-baseline,1000\n",
                "server_cpus: CPU 1000 cannot be used here",
            ),
            (
                "name,scenario,server,server_cpus\na,bulk-baseline,mongodb://h,0\n",
                "a running server cannot be pinned",
            ),
            (
                "name,scenario,server,cache\na,bulk-baseline,mongodb://h,1GB\n",
                "cache: the cache of a server that is running",
            ),
            ("name,scenario,client_cpus\na,hang,0\n", "the run itself starts its server"),
            ("name,scenario,warm_up\na,hang,2s\n", "warm_up: the run starts its own server"),
            ("name,scenario,in_flight\na,ycsb-a,0\n", "in_flight 0"),
            ("name,scenario,fill\na,rate,5 of 64B\n", "fill: a scenario has no topics"),
            ("name,scenario,beside\na,rate,5\n", "give its source with `reference_of`"),
            ("name,pipeline\na,generator-to-nop\n", "the nearest shipped one, `generator-to-noop`"),
            ("name,pipeline,cache\na,generator-to-noop,1GB\n", "no MongoDB server is started"),
        ] {
            let message = format!("{:#}", built(text, &Arguments::default()).unwrap_err());
            assert!(message.contains(part), "{part}: {message}");
        }
        let only = Arguments { only: vec!["b".into()], ..Arguments::default() };
        let message = built("name,scenario,server\na,rate,\n", &only).unwrap_err().to_string();
        assert!(message.contains("--only b: there is no such test"), "{message} {uri}");
    }
}
