//! What may have held a run back, in sentences: what stood at its limit, and what that does not prove.

use plimsoll_measure::line::Suspect;
use plimsoll_measure::run::{HeldBack, Run};

/// What stood at its limit in the last phase, or why that is not told.
pub(super) fn held_back(run: &Run) -> Vec<String> {
    run.held_back.iter().flat_map(|it| said(run, it)).collect()
}

fn said(run: &Run, held_back: &HeldBack) -> Vec<String> {
    let phase = &held_back.phase;
    if let Some(reason) = &held_back.reason {
        return vec![format!("What held phase {phase} back is not told: {reason}.")];
    }
    let found = if held_back.at_limit.is_empty() {
        let is_open = run.phases.iter().any(|it| it.name == *phase && it.open);
        let then = if is_open { "" } else { "; more writers may do more" };
        format!(
            "Phase {phase}, held back by: not found. Nothing that was looked at stood at its limit{then}."
        )
    } else {
        format!(
            "Phase {phase}, held back by: perhaps {}, at its limit while the load ran. `plimsoll line` compares with a rate that holds.",
            list(&held_back.at_limit)
        )
    };
    let unseen = super::line::unseen(&held_back.not_seen);
    std::iter::once(found).chain(unseen).collect()
}

fn list(suspects: &[Suspect]) -> String {
    let words: Vec<_> = suspects.iter().map(|it| format!("{} ({})", it.name, it.evidence)).collect();
    words.join(" or ")
}
