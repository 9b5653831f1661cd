//! Compares measured runs under a request, and decides the exit.

use plimsoll_measure::comparison::{self, Comparison, Request, Settings};
use plimsoll_report::comparison::conclusions;
use plimsoll_run::exit::{Deserves, Exit, Outcome};

use super::gather::Measured;

/// How two sides are judged.
#[derive(Clone, Debug)]
pub struct Judging {
    /// The metric that decides; chosen by the load if absent.
    pub primary: Option<String>,
    /// No smaller difference, as a share, is called better or worse.
    pub min_effect: f64,
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
pub fn weigh(a: &[Measured], b: &[Measured], asked: Asked, judge: &Judging) -> Outcome<Comparison> {
    let mut comparison = comparison::compare(request(a, b, asked, judge)).deserves(Exit::Usage)?;
    comparison.conclusions = conclusions(&comparison);
    Ok(comparison)
}

/// Looks whether pairs could be compared if there were enough of them.
///
/// # Errors
/// Why they never can be.
pub fn check(a: &[Measured], b: &[Measured], asked: Asked, judge: &Judging) -> Outcome<()> {
    comparison::check(&request(a, b, asked, judge)).deserves(Exit::Usage)
}

fn request<'a>(a: &'a [Measured], b: &'a [Measured], asked: Asked, judge: &Judging) -> Request<'a> {
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
