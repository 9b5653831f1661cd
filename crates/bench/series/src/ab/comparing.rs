//! Compares measured runs as requested, and decides the exit.

use plimsoll_measure::comparison::{self, Comparison, Request, Settings};
use plimsoll_report::comparison::conclusions;
use plimsoll_run::exit::{Deserves, Exit, Outcome};

use super::read_runs::Measured;

/// The criteria of a comparison.
#[derive(Clone, Debug)]
pub struct Judging {
    /// The metric that decides; the load chooses it if absent.
    pub primary: Option<String>,
    /// The smallest relevant difference, as a share.
    pub min_effect: f64,
}

/// The names of A and B, and their allowed differences.
pub struct Asked {
    /// Their names.
    pub names: [String; 2],
    /// The keys that may differ.
    pub varied: Vec<String>,
    /// Whether all keys may differ.
    pub force: bool,
}

/// Compares measured runs.
///
/// # Errors
/// When the two cannot be compared. The error names the reason.
pub fn weigh(a: &[Measured], b: &[Measured], asked: Asked, judge: &Judging) -> Outcome<Comparison> {
    let mut comparison = comparison::compare(request(a, b, asked, judge)).deserves(Exit::Usage)?;
    comparison.conclusions = conclusions(&comparison);
    Ok(comparison)
}

/// Checks whether runs like these can be compared once there are enough pairs.
///
/// # Errors
/// When they cannot be compared. The error names the reason.
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

/// The exit of a comparison. A regression ends like a failed expectation. So does an expectation that B breaks in more runs than
/// A, or a larger number of failed operations on B. So does a side without operations or a primary metric without a verdict, because
/// a comparison without a judgement must not pass a gate. Missing documents have priority.
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
