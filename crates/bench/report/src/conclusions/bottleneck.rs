//! Names the likely bottleneck of a single load in sentences.

use plimsoll_measure::line::Suspect;
use plimsoll_measure::run::{Bottleneck, Run};

use crate::prose::phase;

/// The resources at their limit in the last phase, or why they were not assessed.
pub(super) fn bottleneck(run: &Run) -> Vec<String> {
    run.bottleneck.iter().flat_map(|it| sentences(run, it)).collect()
}

fn sentences(run: &Run, bottleneck: &Bottleneck) -> Vec<String> {
    let name = phase(&bottleneck.phase);
    if let Some(reason) = &bottleneck.reason {
        return vec![format!("{name}: bottleneck not assessed: {reason}.")];
    }
    let found = if bottleneck.at_limit.is_empty() {
        let is_open = run.phases.iter().any(|it| it.name == bottleneck.phase && it.open);
        format!("{name}: no bottleneck found{}.", if is_open { "" } else { "; try more writers" })
    } else {
        format!(
            "{name}: bottleneck: perhaps {}, at its limit under load. `plimsoll line` compares with a rate that holds.",
            list(&bottleneck.at_limit)
        )
    };
    std::iter::once(found).chain(super::line::unchecked(&bottleneck.not_seen)).collect()
}

fn list(suspects: &[Suspect]) -> String {
    let suspects: Vec<_> = suspects.iter().map(|it| format!("{} ({})", it.name, it.evidence)).collect();
    suspects.join(" or ")
}
