//! Adds the remedy when measured runs cannot be compared.

use std::path::Path;

use anyhow::anyhow;
use plimsoll_measure::comparison::Error;
use plimsoll_measure::comparison::sign_flip::PAIRS_MIN;

use plimsoll_run::exit::Failure;

/// Adds the remedy to a refusal: `plimsoll ab` does not have the flags of `plimsoll compare`. `last` is the directory of a run
/// of the last pair.
pub fn with_remedy(failure: Failure, path: &Path, pairs: usize, last: &str) -> Failure {
    let found = failure.error.downcast_ref::<Error>().and_then(Error::forcible);
    let Some(found) = found else { return failure };
    let error = anyhow!("{found}\n{}", remedy(&path.display().to_string(), pairs, last));
    Failure { error, ..failure }
}

fn remedy(path: &str, pairs: usize, last: &str) -> String {
    let pair = last.trim_end_matches(|end: char| !end.is_ascii_digit());
    let again = format!(
        "The measured runs are kept in {path}. If you can undo the difference, do so, remove {path}/{pair}-a and \
         {path}/{pair}-b, and continue with --resume {path}"
    );
    let forced = format!("plimsoll compare {path}/*-a --with {path}/*-b --force");
    match pairs {
        1 => format!("{again}; to compare two single runs anyway, without a verdict: `{forced}`"),
        few if few < PAIRS_MIN => {
            format!("{again}; {few} pairs are too few to force; with {PAIRS_MIN} or more, use `{forced}`")
        }
        _ => format!("{again}; or compare the {pairs} pairs anyway with `{forced}`"),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::comparison::Difference;

    use super::*;
    use plimsoll_run::exit::Exit;

    fn explained(error: Error, pairs: usize) -> String {
        let failure = Failure { exit: Exit::Usage, error: error.into() };
        let failure = with_remedy(failure, Path::new("runs/x"), pairs, "012-b");
        assert_eq!(failure.exit, Exit::Usage);
        failure.error.to_string()
    }

    #[test]
    fn a_changed_machine_is_explained_with_the_remedy() {
        let governor = Difference {
            path: "environment.governor".into(),
            a: Some("\"performance\"".into()),
            b: Some("\"powersave\"".into()),
        };
        let changed = || Error::Incomparable { differences: vec![governor.clone()] };
        for (pairs, part) in [
            (1, "to compare two single runs anyway"),
            (7, "7 pairs are too few"),
            (12, "or compare the 12 pairs anyway with"),
        ] {
            let text = explained(changed(), pairs);
            assert!(
                text.contains("environment.governor: \"performance\" in A, \"powersave\" in B"),
                "{text}"
            );
            assert!(text.contains("`plimsoll compare runs/x/*-a --with runs/x/*-b --force`"), "{text}");
            assert!(text.contains("remove runs/x/012-a and runs/x/012-b"), "{text}");
            assert!(text.contains(part) && !text.contains("--varies"), "{text}");
        }
    }

    #[test]
    fn a_refusal_that_cannot_be_forced_stays_the_same() {
        let unknown = || Error::NoSuchMetric { name: "speed".into(), known: "line.rate".into() };
        assert_eq!(explained(unknown(), 9), unknown().to_string());
    }
}
