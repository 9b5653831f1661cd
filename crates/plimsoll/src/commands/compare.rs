//! Implements `plimsoll compare`: compares two sets of measured runs.

use std::path::Path;

use anyhow::anyhow;
use plimsoll_measure::clock;
use plimsoll_measure::comparison::Comparison;
use plimsoll_report::comparison::{Links, page};

use super::series::tell;
use crate::cli::CompareArgs;
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::run_dir::{self, COMPARISON, Named, Whole};
use plimsoll_series::ab::comparing::{Asked, exit, weigh};
use plimsoll_series::ab::read_runs::{Measured, read_runs};
use plimsoll_series::directory::{create, read, save};

/// The name of a comparison's directory.
const NAME: &str = "comparison";
/// The largest number of runs whose names are listed.
const NAMED_MAX: usize = 3;

/// Compares measured runs.
///
/// # Errors
/// A run is missing, or the runs cannot be compared.
pub fn compare(args: &CompareArgs) -> Outcome<Exit> {
    if let [only] = &args.runs[..]
        && args.with.is_empty()
    {
        return again(only, args.json);
    }
    let [a, b] = sides(args).deserves(Exit::Usage)?;
    let names = [name(&a), name(&b)];
    let asked = Asked { names, varied: args.varies.clone(), force: args.force };
    let comparison = weigh(&a, &b, asked, &args.judge.judging())?;
    check_vacant(args.out.as_deref()).deserves(Exit::Usage)?;
    let path = create::<Comparison>(args.out.as_deref(), NAME, clock::wall_ms()).deserves(Exit::Usage)?;
    save(&path, &comparison, &page(&comparison, Links::None))?;
    tell(&comparison, &path, args.json)?;
    Ok(exit(&comparison))
}

/// Refuses a directory that is not empty: a comparison of existing runs has nothing to continue.
fn check_vacant(out: Option<&Path>) -> anyhow::Result<()> {
    let fault = out.and_then(run_dir::occupied);
    fault.map_or(Ok(()), |fault| {
        Err(anyhow!("{fault}: a comparison needs an empty directory: choose another with --out"))
    })
}

/// Prints an existing comparison.
fn again(path: &Path, json: bool) -> Outcome<Exit> {
    let Named::Whole(Whole::Comparison, path) = run_dir::resolve(path).deserves(Exit::Usage)? else {
        let error = anyhow!(
            "name what to compare {} with: --with RUN…, or a second run directory; only a directory with {COMPARISON} is \
             printed again",
            path.display()
        );
        return Err(Failure { exit: Exit::Usage, error });
    };
    let comparison: Comparison = read(&path).deserves(Exit::Usage)?;
    tell(&comparison, &path, json)?;
    Ok(exit(&comparison))
}

fn sides(args: &CompareArgs) -> anyhow::Result<[Vec<Measured>; 2]> {
    match &args.runs[..] {
        runs if !args.with.is_empty() => Ok([read_runs(runs)?, read_runs(&args.with)?]),
        [a, b] => Ok([read_runs(std::slice::from_ref(a))?, read_runs(std::slice::from_ref(b))?]),
        runs => {
            Err(anyhow!("{} runs without a division into A and B: list those of B after --with", runs.len()))
        }
    }
}

/// The name of a side.
fn name(side: &[Measured]) -> String {
    let names: Vec<&str> = side.iter().take(NAMED_MAX).map(|it| it.name.as_str()).collect();
    match side.len().saturating_sub(NAMED_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_directory_is_refused_without_advice_that_this_command_cannot_take() {
        let full = tempfile::tempdir().unwrap();
        std::fs::write(full.path().join("x"), "x").unwrap();
        let said = check_vacant(Some(full.path())).unwrap_err().to_string();
        assert!(said.contains("choose another with --out") && !said.contains("--resume"), "{said}");
        assert!(check_vacant(None).is_ok());
    }
}
