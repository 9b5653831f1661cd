//! Reports failures and invalid runs, which come before all figures.

use plimsoll_measure::comparison::{Broken, Comparison};

/// Violated expectations and invalid runs; failed operations too, if only B has them or B has a larger share
/// of them.
pub(super) fn failures(comparison: &Comparison) -> Vec<String> {
    let pairs = comparison.pairs();
    let mut said: Vec<String> = comparison.broken.iter().map(|it| broken(it, pairs)).collect();
    said.extend(invalid(comparison));
    said.extend(failed(comparison));
    said
}

fn broken(it: &Broken, pairs: usize) -> String {
    let follows = match (it.a, it.b) {
        (a, b) if b > a => ": B violates an expectation, which is a failure even with better figures",
        _ => "",
    };
    let Broken { metric, expression, a, b } = it;
    format!(
        "{metric} {expression} did not hold in {b} of {pairs} runs of B and {a} of {pairs} of A{follows}."
    )
}

fn invalid(comparison: &Comparison) -> Option<String> {
    let pairs = comparison.pairs();
    let (a, b) = (comparison.a.invalid, comparison.b.invalid);
    let follows = if comparison.invalid_more {
        " B is significantly more often invalid, which is a failure."
    } else {
        ""
    };
    (a + b > 0).then(|| {
        format!(
            "{a} of {pairs} runs of A and {b} of {pairs} of B are invalid: their figures and conclusions are less reliable; \
             the reasons are below.{follows}"
        )
    })
}

fn failed(comparison: &Comparison) -> Option<String> {
    let (a, b) = (comparison.a.failed, comparison.b.failed);
    let said = match a {
        0 if b > 0 => format!("Operations of B failed ({b} in all), and none of A"),
        _ if comparison.fails_more => {
            format!("B is shown to fail a larger share of its operations ({b} in all) than A ({a})")
        }
        _ => return None,
    };
    let follows = if comparison.fails_more { "that is a failure, and " } else { "" };
    Some(format!("{said}: {follows}its figures cover only the successes."))
}

#[cfg(test)]
mod tests {
    use super::super::sentences::conclusions;
    use super::super::tests::sample;
    use super::*;

    #[track_caller]
    fn check(change: impl Fn(&mut Comparison), expected: &str) {
        let mut comparison = sample(10, 1.2, 0.03);
        assert!(conclusions(&comparison)[0].starts_with("B is faster"));
        change(&mut comparison);
        let said = conclusions(&comparison);
        assert!(said[0].contains(expected) && said[1].starts_with("B is faster"), "{said:?}");
    }

    #[test]
    fn failures_of_the_runs_come_first() {
        let broken = |a, b| Broken { metric: "insert.response".into(), expression: "p(99)<5ms".into(), a, b };
        let both =
            "insert.response p(99)<5ms did not hold in 10 of 10 runs of B and 0 of 10 of A: B violates";
        check(|it| it.broken = vec![broken(0, 10)], both);
        check(|it| it.broken = vec![broken(3, 3)], "in 3 of 10 runs of B and 3 of 10 of A.");
        check(|it| it.b.invalid = 4, "0 of 10 runs of A and 4 of 10 of B are invalid: their");
        let many = "6 of 10 of B are invalid: their figures and conclusions are less reliable; the reasons are below. \
                    B is significantly more often invalid";
        check(|it| (it.b.invalid, it.invalid_more) = (6, true), many);
        let alone = "Operations of B failed (7 in all), and none of A";
        check(|it| it.b.failed = 7, &format!("{alone}: its figures cover only the successes."));
        check(|it| (it.b.failed, it.fails_more) = (7, true), &format!("{alone}: that is a failure, and its"));
        let more =
            "B is shown to fail a larger share of its operations (70 in all) than A (3): that is a failure";
        check(|it| (it.a.failed, it.b.failed, it.fails_more) = (3, 70, true), more);
    }

    #[test]
    fn equal_failures_of_both_sides_are_only_a_note() {
        let mut comparison = sample(10, 1.2, 0.03);
        (comparison.a.failed, comparison.b.failed) = (3, 7);
        assert!(failures(&comparison).is_empty());
    }
}
