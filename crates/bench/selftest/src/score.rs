//! Adds up the seeded defects of all checks, and those that were named.

use serde::Serialize;

use super::Finding;

/// The seeded defects of a check, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Score {
    /// The kinds that the check seeds; 0 for a check without a defect.
    pub seeded: u64,
    /// The kinds of which every seeded defect was named.
    pub named: u64,
}

/// The score of all checks in words. `None` if none of them is about defects.
pub fn score(findings: &[Finding]) -> Option<String> {
    let scored: Vec<_> = findings.iter().filter_map(|it| Some((it.passed, it.score?))).collect();
    let sum = |part: fn(&Score) -> u64| scored.iter().map(|(_, score)| part(score)).sum::<u64>();
    let (named, seeded) = (sum(|score| score.named), sum(|score| score.seeded));
    let rest =
        if scored.iter().all(|(passed, _)| *passed) { "nothing else" } else { "but a check is not exact" };
    (!scored.is_empty()).then(|| format!("{named} of {seeded} kinds of defects named, {rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_adds_up_all_kinds_and_says_whether_something_else_was_named() {
        let of = |seeded, passed| Finding::of_defects("a check", seeded, passed, String::new());
        let figure = Finding { name: "a rate", passed: true, figure: String::new(), score: None };
        assert_eq!(score(std::slice::from_ref(&figure)), None);
        let all = [figure, of(1, true), of(2, true), of(0, true)];
        assert_eq!(score(&all).as_deref(), Some("3 of 3 kinds of defects named, nothing else"));
        for (seeded, named) in [(2, 3), (0, 5)] {
            let mut missed = vec![of(3, true), of(2, true)];
            missed.truncate(2 - usize::from(seeded > 0));
            missed.push(of(seeded, false));
            let expected = format!("{named} of 5 kinds of defects named, but a check is not exact");
            assert_eq!(score(&missed).as_deref(), Some(&*expected));
        }
    }
}
