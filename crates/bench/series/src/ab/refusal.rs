//! Explains the way out when measured runs cannot be compared.

use std::path::Path;

use anyhow::anyhow;
use plimsoll_measure::comparison::Error;
use plimsoll_measure::comparison::sign_flip::PAIRS_MIN;

use plimsoll_run::exit::Failure;

/// A refusal with the way out that there is here: the flags of `plimsoll compare` are none of `plimsoll ab`. `last` is the
/// directory of a run of the last pair.
pub fn with_way_out(failure: Failure, path: &Path, pairs: usize, last: &str) -> Failure {
    let found = failure.error.downcast_ref::<Error>().and_then(Error::forcible);
    let Some(found) = found else { return failure };
    let error = anyhow!("{found}\n{}", way_out(&path.display().to_string(), pairs, last));
    Failure { error, ..failure }
}

fn way_out(path: &str, pairs: usize, last: &str) -> String {
    let pair = last.trim_end_matches(|end: char| !end.is_ascii_digit());
    let again = format!(
        "What was measured is kept in {path}. If what differs can be put back, put it back, remove {path}/{pair}-a and \
         {path}/{pair}-b, and go on with --resume {path}"
    );
    let forced = format!("plimsoll compare {path}/*-a --with {path}/*-b --force");
    match pairs {
        1 => format!("{again}; two single runs are compared all the same, without a verdict, by `{forced}`"),
        few if few < PAIRS_MIN => {
            format!(
                "{again}; {few} pairs are too few to compare all the same, from {PAIRS_MIN} on that is `{forced}`"
            )
        }
        _ => format!("{again}; or compare the {pairs} pairs all the same with `{forced}`"),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::comparison::Difference;

    use super::*;
    use plimsoll_run::exit::Exit;

    fn told(error: Error, pairs: usize) -> String {
        let failure = Failure { exit: Exit::Usage, error: error.into() };
        let failure = with_way_out(failure, Path::new("runs/x"), pairs, "012-b");
        assert_eq!(failure.exit, Exit::Usage);
        failure.error.to_string()
    }

    #[test]
    fn a_machine_that_changed_on_the_way_is_told_with_the_way_out() {
        let governor = Difference {
            path: "environment.governor".into(),
            a: Some("\"performance\"".into()),
            b: Some("\"powersave\"".into()),
        };
        let changed = || Error::Incomparable { differences: vec![governor.clone()] };
        for (pairs, part) in [
            (1, "two single runs are compared all the same"),
            (7, "7 pairs are too few"),
            (12, "or compare the 12 pairs all the same with"),
        ] {
            let said = told(changed(), pairs);
            assert!(
                said.contains("environment.governor: \"performance\" in A, \"powersave\" in B"),
                "{said}"
            );
            assert!(said.contains("`plimsoll compare runs/x/*-a --with runs/x/*-b --force`"), "{said}");
            assert!(said.contains("remove runs/x/012-a and runs/x/012-b"), "{said}");
            assert!(said.contains(part) && !said.contains("--varies"), "{said}");
        }
    }

    #[test]
    fn what_cannot_be_forced_stays_as_it_is() {
        let unknown = || Error::NoSuchMetric { name: "speed".into(), known: "line.rate".into() };
        assert_eq!(told(unknown(), 9), unknown().to_string());
    }
}
