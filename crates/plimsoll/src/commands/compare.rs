//! `plimsoll compare`: runs that were measured, held against each other.

use std::path::Path;

use anyhow::{Context, anyhow};
use plimsoll_measure::clock;
use plimsoll_measure::comparison::{self, Comparison, Request, Settings};
use plimsoll_report::comparison::{Links, conclusions, summary};

use crate::ab::dir::{self, COMPARISON};
use crate::ab::gather::{Measured, gather};
use crate::cli::{CompareArgs, JudgeArgs};
use crate::terminal::{print, style};
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};

/// What a comparison is called among other runs.
const NAME: &str = "comparison";
/// Runs that are named one by one.
const NAMED_MAX: usize = 3;

/// Compares what was measured.
///
/// # Errors
/// When something is missing, or cannot be compared.
pub fn compare(args: &CompareArgs) -> Outcome<Exit> {
    if let [only] = &args.runs[..]
        && args.with.is_empty()
    {
        return again(only, args.json);
    }
    let [a, b] = sides(args).deserves(Exit::Usage)?;
    let names = [name(&a), name(&b)];
    let asked = Asked { names, varied: args.varies.clone(), force: args.force };
    let comparison = weigh(&a, &b, asked, &args.judge)?;
    let path = dir::create(args.out.as_deref(), NAME, clock::wall_ms()).deserves(Exit::Usage)?;
    dir::save(&path, &comparison, Links::None)?;
    tell(&comparison, &path, args.json)?;
    Ok(exit(&comparison))
}

/// A comparison that was made, once more.
fn again(path: &Path, json: bool) -> Outcome<Exit> {
    if !path.join(COMPARISON).is_file() {
        let error = anyhow!(
            "name what {} is compared with: --with RUN…, or a second run directory; alone a directory with a {COMPARISON} is \
             printed again",
            path.display()
        );
        return Err(Failure { exit: Exit::Usage, error });
    }
    let comparison = dir::read(path).deserves(Exit::Usage)?;
    tell(&comparison, path, json)?;
    Ok(exit(&comparison))
}

fn sides(args: &CompareArgs) -> anyhow::Result<[Vec<Measured>; 2]> {
    match &args.runs[..] {
        runs if !args.with.is_empty() => Ok([gather(runs)?, gather(&args.with)?]),
        [a, b] => Ok([gather(std::slice::from_ref(a))?, gather(std::slice::from_ref(b))?]),
        runs => Err(anyhow!(
            "{} runs, and nothing says which are A and which are B: give those of B after --with",
            runs.len()
        )),
    }
}

/// What a side is called.
fn name(side: &[Measured]) -> String {
    let names: Vec<&str> = side.iter().take(NAMED_MAX).map(|it| it.name.as_str()).collect();
    match side.len().saturating_sub(NAMED_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// What A and B are, and in what they may differ.
pub struct Asked {
    /// What they are called.
    pub names: [String; 2],
    /// Keys that may differ.
    pub varied: Vec<String>,
    /// Whether anything may.
    pub force: bool,
}

/// Compares, and says what came of it.
///
/// # Errors
/// Why the two cannot be compared.
pub fn weigh(a: &[Measured], b: &[Measured], asked: Asked, judge: &JudgeArgs) -> Outcome<Comparison> {
    let mut comparison = comparison::compare(request(a, b, asked, judge)).deserves(Exit::Usage)?;
    comparison.conclusions = conclusions(&comparison);
    Ok(comparison)
}

/// Looks whether pairs could be compared if there were enough of them.
///
/// # Errors
/// Why they never can be.
pub fn check(a: &[Measured], b: &[Measured], asked: Asked, judge: &JudgeArgs) -> Outcome<()> {
    comparison::check(&request(a, b, asked, judge)).deserves(Exit::Usage)
}

fn request<'a>(a: &'a [Measured], b: &'a [Measured], asked: Asked, judge: &JudgeArgs) -> Request<'a> {
    Request {
        names: asked.names,
        a: a.iter().map(Measured::subject).collect(),
        b: b.iter().map(Measured::subject).collect(),
        varied: asked.varied,
        force: asked.force,
        primary: judge.primary.clone(),
        settings: Settings { min_effect: judge.min_effect, ..Settings::default() },
    }
}

/// Prints a comparison.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn tell(comparison: &Comparison, path: &Path, json: bool) -> Outcome<()> {
    if json {
        let text = serde_json::to_string_pretty(comparison).context("write comparison.json")?;
        print(&format!("{text}\n"));
    } else {
        print(&summary(comparison, Some(&path.display().to_string()), style()));
    }
    Ok(())
}

/// A regression ends like an expectation that failed: what was measured is sound, and it is not what it had to be. So does an
/// expectation that B breaks in more runs than A, operations that fail on B alone or more of them than on A, a side that did
/// nothing, or pairs that leave the primary metric without a verdict: a gate must not open for what could not be judged.
/// Documents that are not there weigh more.
pub fn exit(comparison: &Comparison) -> Exit {
    let breaks = comparison.is_broken() || comparison.is_unsound();
    if !(comparison.a.kept && comparison.b.kept) {
        Exit::Integrity
    } else if comparison.is_regression() || breaks || comparison.is_failed() {
        Exit::Expectation
    } else {
        Exit::Held
    }
}
