//! Runs the test programs that cargo built, several at a time. The output of a program is shown only if it fails.
//!
//! `cargo test` runs one program after the other. Most programs wait for servers and brokers half of the time, so
//! two of them at once need little longer than one.

use std::collections::VecDeque;
use std::env;
use std::fs::{self, File};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{FULL, cargo, root};
use crate::steps::now;

/// The number of programs that run at once.
const LANES: usize = 2;
/// The test harness's own setting, which a user's value overrides.
const THREADS: &str = "RUST_TEST_THREADS";
/// The smallest number of tests of an integration program that run at once: most tests wait for processes
/// most of the time.
const TEST_THREADS_MIN: usize = 4;
/// The programs that run long although they are small: their tests wait for a broker.
const LONG: [&str; 1] = ["kafka it"];
/// The wings whose unit tests may start installed programs.
const EXTERNAL: [&str; 2] = ["adapters", "services"];

/// A built test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The directory of its package and the name of its target: `http it`.
    name: String,
    /// Whether it holds unit tests outside adapters and services. They need no installed program.
    unit: bool,
    executable: PathBuf,
    /// The root of its package, where it runs.
    directory: PathBuf,
}

/// Some of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tests {
    /// The unit tests that need no installed program.
    Unit,
    /// All other tests, and the benchmarks in small. They start the installed programs.
    Integration,
    /// The tests in modules named `long`, which the others leave out.
    Long,
}

impl Tests {
    fn hold(self, program: &Program) -> bool {
        match self {
            Self::Unit => program.unit,
            Self::Integration => !program.unit,
            Self::Long => program.name.ends_with(" lib") || program.name.ends_with(" it"),
        }
    }

    fn words(self) -> &'static [&'static str] {
        if self == Self::Long { &["--ignored", "::long::"] } else { &[] }
    }

    /// The number of tests that run at once. `None` leaves it to the test harness, which takes the number of cores.
    fn threads(self, cores: usize) -> Option<usize> {
        (self == Self::Integration).then(|| cores.max(TEST_THREADS_MIN))
    }
}

/// Builds all test programs, and returns them.
pub(crate) fn build() -> Result<Vec<Program>> {
    let mut command = cargo();
    command.arg("test").args(FULL).args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let built =
        command.current_dir(root()).stderr(Stdio::inherit()).output().context("run `cargo test --no-run`")?;
    ensure!(built.status.success(), "`cargo test --no-run` failed ({}): see its output above", built.status);
    programs(&String::from_utf8(built.stdout)?)
}

/// The test programs in cargo's messages, those first that run long: a large program tends to.
fn programs(messages: &str) -> Result<Vec<Program>> {
    let mut sized = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        if let Some(program) = program(&serde_json::from_str(line)?) {
            let bytes = fs::metadata(&program.executable).map_or(0, |file| file.len());
            sized.push(((LONG.contains(&program.name.as_str()), bytes), program));
        }
    }
    sized.sort_by(|(left, a), (right, b)| right.cmp(left).then_with(|| a.name.cmp(&b.name)));
    Ok(sized.into_iter().map(|(_, program)| program).collect())
}

/// The test program of one message of cargo, if the message announces one.
fn program(message: &Value) -> Option<Program> {
    let executable = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    let (kind, target) = (message["target"]["kind"][0].as_str()?, message["target"]["name"].as_str()?);
    let unit = matches!(kind, "lib" | "bin");
    let name = format!("{} {}", directory.file_name()?.to_string_lossy(), if unit { kind } else { target });
    let external = directory.components().any(|part| EXTERNAL.iter().any(|wing| part.as_os_str() == *wing));
    let unit = unit && !external;
    Some(Program { name, unit, executable: executable.into(), directory: directory.into() })
}

/// Runs some of the tests, and prints a line for each program. Their output goes to files in `logs`.
///
/// # Errors
/// Names every program that failed, after its output has been printed.
pub(crate) fn run(programs: &[Program], tests: Tests, logs: &Path) -> Result<()> {
    fs::create_dir_all(logs).with_context(|| format!("create {}", logs.display()))?;
    let waiting: Mutex<VecDeque<&Program>> =
        Mutex::new(programs.iter().filter(|program| tests.hold(program)).collect());
    let failed = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<()> {
        while let Some(program) = next() {
            if !run_one(program, tests, logs)? {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(program.name.as_str());
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(work)).collect();
        lanes
            .into_iter()
            .try_for_each(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(failed.is_empty(), "tests failed: {}; see their output above", failed.join(", "));
    Ok(())
}

/// Runs one program, and returns whether it succeeded.
fn run_one(program: &Program, tests: Tests, logs: &Path) -> Result<bool> {
    let log = logs.join(format!("{}.log", program.name.replace(' ', "-")));
    let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
    let mut command = Command::new(&program.executable);
    command
        .args(tests.words())
        .current_dir(&program.directory)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    if let (Some(threads), None) = (tests.threads(cores), env::var_os(THREADS)) {
        command.env(THREADS, threads.to_string());
    }
    let start = now();
    let status = command.status().with_context(|| format!("run {}", program.executable.display()))?;
    let took = now() - start;
    let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if !status.success() {
        eprintln!("\n{output}");
    }
    eprintln!("{}", line(&program.name, status.success(), took, &output));
    Ok(status.success())
}

/// The line about a finished program, with the counts that the test harness printed.
fn line(name: &str, success: bool, took: Duration, output: &str) -> String {
    let verdict = if success { "ok" } else { "FAILED" };
    let counts = output.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    let counts = counts.and_then(|line| line.split_once(". ")).map_or("", |(_, counts)| counts);
    let counts = counts.split("; finished").next().unwrap_or_default();
    format!("{verdict:<6}{:>7.1} s  {name:<22} {counts}", took.as_secs_f64()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(wing: &str, kind: &str, name: &str, test: bool, executable: Option<&str>) -> String {
        serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": format!("/w/crates/{wing}/http/Cargo.toml"),
            "target": {"kind": [kind], "name": name}, "profile": {"test": test}, "executable": executable,
        })
        .to_string()
    }

    #[test]
    fn test_programs_are_found_among_cargos_messages() {
        let messages = [
            message("base", "lib", "plimsoll_http", true, Some("/t/plimsoll_http-1")),
            message("base", "lib", "plimsoll_http", false, None),
            message("base", "bin", "plimsoll", false, Some("/t/plimsoll")),
            message("base", "test", "it", true, Some("/t/it-2")),
            message("base", "bench", "client", true, Some("/t/client-3")),
            message("services", "bin", "plimsoll_http", true, Some("/t/plimsoll_http-4")),
            "not a message".to_owned(),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = programs(&messages.join("\n")).unwrap();
        let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.unit)).collect();
        let expected = [("http bin", false), ("http client", false), ("http it", false), ("http lib", true)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_program_that_waits_for_a_broker_comes_first() {
        let of = |crate_name: &str| {
            message("adapters", "test", "it", true, Some("/t/it-1")).replace("http", crate_name)
        };
        let found = programs(&[of("http"), of("kafka")].join("\n")).unwrap();
        assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["kafka it", "http it"]);
    }

    #[test]
    fn a_line_has_the_counts_of_the_harness() {
        let output = "running 3 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
                      finished in 1.00s\n";
        let text = line("http it", true, Duration::from_millis(1_250), output);
        assert_eq!(
            text,
            "ok        1.2 s  http it                2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out"
        );
        assert_eq!(line("echo", false, Duration::from_secs(2), "nothing"), "FAILED    2.0 s  echo");
    }

    #[test]
    fn more_tests_than_cores_run_at_once_in_a_program_that_waits() {
        assert_eq!((Tests::Integration.threads(2), Tests::Integration.threads(16)), (Some(4), Some(16)));
        assert_eq!((Tests::Unit.threads(2), Tests::Long.threads(2)), (None, None));
    }

    fn shell(name: &str, script: &str, directory: &Path) -> Program {
        let executable = directory.join(name);
        let write = "printf '%s' \"$1\" > \"$0\"; chmod 755 \"$0\"";
        let script = format!("#!/bin/sh\n{script}\n");
        let written =
            Command::new("/bin/sh").args(["-c", write]).arg(&executable).arg(script).status().unwrap();
        assert!(written.success());
        Program { name: name.to_owned(), unit: true, executable, directory: directory.to_owned() }
    }

    #[test]
    fn every_program_runs_and_every_failure_is_named() {
        let logs = env::temp_dir().join(format!("plimsoll-xtask-{}", std::process::id()));
        fs::create_dir_all(&logs).unwrap();
        let scripts = [
            ("good", "pwd"),
            ("bad", "echo wrong >&2; exit 1"),
            ("late", "echo late"),
            ("worse it", "echo $1; exit 2"),
        ];
        let programs: Vec<_> = scripts.iter().map(|(name, script)| shell(name, script, &logs)).collect();
        let error = run(&programs, Tests::Unit, &logs).unwrap_err().to_string();
        run(&programs, Tests::Integration, &logs).unwrap();
        let long = run(&programs, Tests::Long, &logs).unwrap_err().to_string();
        let words = fs::read_to_string(logs.join("worse-it.log")).unwrap();
        let here = fs::read_to_string(logs.join("good.log")).unwrap();
        let late = fs::read_to_string(logs.join("late.log")).unwrap();
        fs::remove_dir_all(&logs).unwrap();
        assert!(error.contains("bad") && error.contains("worse it") && !error.contains("late"), "{error}");
        assert!(long.contains("worse it") && !long.contains("bad"), "{long}");
        assert_eq!(words.trim(), "--ignored");
        assert_eq!((here.trim(), late.trim()), (logs.to_str().unwrap(), "late"));
    }
}
