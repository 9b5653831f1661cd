//! Runs many real comparisons: a server with itself, and with the same server under a handicap of about 10 %.
//! This checks the promises of the statistics on this machine.
//!
//! Each comparison is one `plimsoll ab`. All comparisons take an hour or more, so results are kept: the same
//! command continues.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::FalseyValueParser;
use plimsoll_install::digest;
use serde_json::{Value, json};

use crate::command::{self, cargo};

/// The scenario: single inserts, closed, on one worker thread.
const SCENARIO: &str = "scenarios/write/single-insert.yaml";
const SERVER: &str = "embedded:relaxed";
/// Exit codes of a finished comparison: without and with a regression.
const MADE: [i32; 2] = [0, 99];

/// Options of the comparisons.
#[derive(Args)]
pub(crate) struct Compare {
    /// The number of comparisons of each kind.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The number of pairs of each comparison.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(8..=50))]
    pairs: u32,
    /// The length of each run's load, in milliseconds. The calibration before and after it takes four more
    /// seconds.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    length_ms: u32,
    /// The handicap of B. A document of 1,300 more bytes costs client and server together about a tenth more
    /// CPU.
    #[arg(long, value_name = "PATH=VALUE", default_value = "document.note.$text.bytes=1300")]
    handicap: String,
    /// Skip the calibration of each run: four seconds less, but comparisons know less about the noise.
    #[arg(long, alias = "no-canary", env = "PLIMSOLL_NO_CALIBRATION", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_calibration: bool,
    /// The directory of the results; existing results are kept.
    #[arg(long, value_name = "DIR", default_value = "target/bench-compare")]
    out: PathBuf,
    /// The program; by default an optimised build of these sources.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// The kind of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Same,
    Handicap,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Same, Self::Handicap];

    const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Handicap => "handicap",
        }
    }
}

/// Runs the missing comparisons, and prints each result.
pub(crate) fn run(compare: &Compare) -> Result<()> {
    let out = command::root().join(&compare.out);
    fs::create_dir_all(&out).with_context(|| format!("make {}", out.display()))?;
    let binary = program(compare)?;
    let asked = asked(compare, &binary)?;
    check_asked(&out, &asked)?;
    println!(
        "{:<6}{:<10}{:>18}{:>10}{:>22}{:>9}{:>8}",
        "round", "B", "verdict", "change", "interval", "p", "took"
    );
    let mut made = Vec::new();
    for round in 1..=compare.rounds {
        for kind in Kind::ALL {
            let row = one(compare, &binary, &out, round, kind)?;
            println!("{}", line(&row));
            made.push(row);
            let results = json!({"asked": asked, "counts": counts(&made), "comparisons": made});
            let text = format!("{}\n", serde_json::to_string_pretty(&results)?);
            fs::write(out.join("results.json"), text)
                .with_context(|| format!("write into {}", out.display()))?;
        }
    }
    println!("\n{}\n{}", counts(&made), out.join("results.json").display());
    Ok(())
}

fn program(compare: &Compare) -> Result<PathBuf> {
    if let Some(binary) = &compare.binary {
        return binary.canonicalize().with_context(|| format!("find {}", binary.display()));
    }
    command::run(cargo().args(["build", "--release", "--package", "plimsoll"]))?;
    Ok(command::root().join("target/release/plimsoll"))
}

/// The options that all comparisons share. The program is identified by its content, so a new build is
/// another program.
fn asked(compare: &Compare, binary: &Path) -> Result<Value> {
    let (sha256, _) = digest::of_file(binary).with_context(|| format!("read {}", binary.display()))?;
    Ok(json!({
        "scenario": SCENARIO, "server": SERVER, "pairs": compare.pairs, "length_ms": compare.length_ms,
        "handicap": compare.handicap, "calibration": !compare.no_calibration, "program_sha256": sha256,
    }))
}

/// Checks that existing results have the same options and the same program.
fn check_asked(out: &Path, asked: &Value) -> Result<()> {
    let file = out.join("asked.json");
    let Ok(text) = fs::read_to_string(&file) else {
        let text = format!("{}\n", serde_json::to_string_pretty(asked)?);
        return fs::write(&file, text).with_context(|| format!("write {}", file.display()));
    };
    let before: Value =
        serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))?;
    let (different, out) = (different(&before, asked).join(", "), out.display());
    ensure!(
        different.is_empty(),
        "{out} has other options ({different}): use the same options and the same program, or another --out"
    );
    Ok(())
}

/// Lists the options that differ from the earlier options.
fn different(before: &Value, asked: &Value) -> Vec<String> {
    let keys = asked.as_object().into_iter().flat_map(|asked| asked.keys());
    let other = keys.filter(|key| before[*key] != asked[*key]);
    other.map(|key| format!("{key}: {}, now {}", before[key], asked[key])).collect()
}

/// Runs one comparison, unless its result exists.
fn one(compare: &Compare, binary: &Path, out: &Path, round: u32, kind: Kind) -> Result<Value> {
    let dir = out.join(format!("{round:03}-{}", kind.name()));
    let kept = out.join(format!("{round:03}-{}.json", kind.name()));
    if let Ok(text) = fs::read_to_string(&kept) {
        return serde_json::from_str(&text).with_context(|| format!("understand {}", kept.display()));
    }
    let began = now();
    let status = words(compare, binary, &dir, kind).status().context("run `plimsoll ab`")?;
    ensure!(
        status.code().is_some_and(|code| MADE.contains(&code)),
        "`plimsoll ab` ended with {status}: see its output above; the same command continues from here"
    );
    let text = fs::read_to_string(dir.join("comparison.json")).context("read comparison.json")?;
    let found: Value = serde_json::from_str(&text).context("understand comparison.json")?;
    let row = row(&found, round, kind, now() - began)?;
    fs::write(&kept, format!("{row}\n")).with_context(|| format!("write {}", kept.display()))?;
    forget_runs(&dir)?;
    Ok(row)
}

fn words(compare: &Compare, binary: &Path, dir: &Path, kind: Kind) -> Command {
    let mut command = Command::new(binary);
    command.current_dir(command::root()).stdin(Stdio::null());
    command.args(["ab", SCENARIO, "--server", SERVER, "--quiet", "--pairs", &compare.pairs.to_string()]);
    command.args(["--set", &format!("phases.0.stop.duration={}ms", compare.length_ms)]);
    match kind {
        Kind::Same => command.arg("--same"),
        Kind::Handicap => command.args(["--b", &format!("set {}", compare.handicap)]),
    };
    command.args(compare.no_calibration.then_some("--no-calibration"));
    let begun = dir.join("ab.json").is_file();
    command.arg(if begun { "--resume" } else { "--out" }).arg(dir);
    command
}

/// The row of a comparison.
fn row(found: &Value, round: u32, kind: Kind, took: Duration) -> Result<Value> {
    let primary = found["metrics"].as_array().and_then(|metrics| metrics.first());
    let primary = primary.context("comparison.json has no metric")?;
    let of = |key: &str| primary[key].clone();
    Ok(json!({
        "round": round,
        "kind": kind.name(),
        "verdict": found["verdict"],
        "primary": of("name"),
        "ratio": of("ratio"),
        "low": of("low"),
        "high": of("high"),
        "p": of("p"),
        "must_show": of("must_show"),
        "started": found["started"],
        "took_s": took.as_secs(),
    }))
}

fn line(row: &Value) -> String {
    let percent =
        |key: &str| row[key].as_f64().map_or("–".to_owned(), |it| format!("{:+.1} %", (it - 1.0) * 100.0));
    let interval = format!("{} to {}", percent("low"), percent("high"));
    let p = row["p"].as_f64().map_or("–".to_owned(), |p| format!("{p:.4}"));
    let text = |key: &str| row[key].as_str().unwrap_or("–").replace('_', " ");
    let (round, took) = (row["round"].to_string(), &row["took_s"]);
    format!(
        "{round:<6}{:<10}{:>18}{:>10}{interval:>22}{p:>9}{:>8}",
        text("kind"),
        text("verdict"),
        percent("ratio"),
        format!("{took} s")
    )
}

/// Counts each verdict.
fn counts(made: &[Value]) -> Value {
    let mut counts = json!({});
    for row in made {
        let (kind, verdict) =
            (row["kind"].as_str().unwrap_or_default(), row["verdict"].as_str().unwrap_or_default());
        let before = counts[kind][verdict].as_u64().unwrap_or(0);
        counts[kind][verdict] = json!(before + 1);
    }
    counts
}

/// Removes the run directories of a finished comparison: comparison.json contains their measurements.
fn forget_runs(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry?.path();
        if path.join("run.json").is_file() {
            fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "xtask does not know `measure`, so it reads the clock itself")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        compare: Compare,
    }

    fn made(kind: Kind, verdict: &str) -> Value {
        let metric =
            json!({"name": "insert.documents_per_s", "ratio": 0.9, "low": 0.88, "high": 0.92, "p": 0.002});
        let found = json!({"verdict": verdict, "started": "now", "metrics": [metric]});
        row(&found, 3, kind, Duration::from_secs(100)).unwrap()
    }

    #[test]
    fn a_comparison_is_one_line() {
        let line = line(&made(Kind::Handicap, "worse"));
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells.join(" "), "3 handicap worse -10.0 % -12.0 % to -8.0 % 0.0020 100 s");
        assert!(row(&json!({"metrics": []}), 1, Kind::Same, Duration::ZERO).is_err());
    }

    #[test]
    fn verdicts_are_counted_by_kind() {
        let made = [
            made(Kind::Same, "no_difference"),
            made(Kind::Handicap, "worse"),
            made(Kind::Same, "no_difference"),
            made(Kind::Same, "better"),
        ];
        let expected = json!({"same": {"no_difference": 2, "better": 1}, "handicap": {"worse": 1}});
        assert_eq!(counts(&made), expected);
    }

    #[test]
    fn other_options_or_another_program_do_not_continue() {
        let dir = std::env::temp_dir().join(format!("plimsoll-asked-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let program = dir.join("plimsoll");
        let begun = |pairs: &str, no_calibration: bool, content: &str| {
            fs::write(&program, content).unwrap();
            let Words { compare } = <Words as clap::Parser>::parse_from(["compare", "--pairs", pairs]);
            let asked = asked(&Compare { no_calibration, ..compare }, &program).unwrap();
            check_asked(&dir, &asked).map_err(|error| error.to_string())
        };
        let same = [begun("10", false, "one"), begun("10", false, "one")];
        let others = [
            (begun("8", false, "one"), "pairs: 10, now 8"),
            (begun("10", true, "one"), "calibration: true, now false"),
            (begun("10", false, "another"), "program_sha256: "),
        ];
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(same, [Ok(()), Ok(())]);
        for (refused, part) in others {
            let message = refused.unwrap_err();
            assert!(message.contains("has other options") && message.contains(part), "{part}: {message}");
        }
    }
}
