//! Writes the conclusions on faults, one sentence for each kind.

use std::collections::BTreeMap;

use plimsoll_measure::matrix::Spread;
use plimsoll_measure::run::{FaultFacts, Run};

use crate::derived::fault_at_s;
use crate::units::{counted, duration};

/// One sentence for each kind of fault, and one for each failed injection.
pub(super) fn faults(run: &Run) -> Vec<String> {
    let mut kinds: BTreeMap<&str, Vec<&FaultFacts>> = BTreeMap::new();
    run.faults.iter().for_each(|fault| kinds.entry(&fault.name).or_default().push(fault));
    let failed = run.faults.iter().filter_map(|fault| Some((fault, fault.error.as_ref()?)));
    let failed = failed.map(|(fault, error)| {
        let at = duration(fault_at_s(run, fault));
        format!("The fault `{}`, {at} into its phase, failed: {error}.", fault.name)
    });
    kinds.into_iter().map(|(name, faults)| kind(name, &faults)).chain(failed).collect()
}

fn kind(name: &str, faults: &[&FaultFacts]) -> String {
    let happened = counted(faults.len() as u64, "time");
    let Some(outages) = Spread::of(faults.iter().map(|fault| fault.outage_s).filter(|s| *s > 0.0)) else {
        return format!("Fault `{name}`, {happened}: no outage.");
    };
    let length = match outages.of {
        1 => format!("no operation succeeded for {}", duration(outages.max)),
        _ => format!(
            "no operation succeeded for {} in the median, {} to {}",
            duration(outages.median),
            duration(outages.min),
            duration(outages.max)
        ),
    };
    let back = faults.iter().filter(|fault| fault.outage_s > 0.0 && fault.first_success_s.is_none()).count();
    let back = match back {
        0 => String::new(),
        _ => format!(
            "; {}, no operation succeeded before the next fault or the end",
            counted(back as u64, "time")
        ),
    };
    let held = faults.iter().filter(|fault| fault.held_again_s.is_some()).count();
    let held = match held {
        0 => "the objective did not hold again in time".to_owned(),
        count if count == faults.len() => "the objective held again each time".to_owned(),
        count => format!("the objective held again after {count} of them"),
    };
    format!("Fault `{name}`, {happened}: {length}{back}; {held}.")
}

/// Servers that were unavailable while others worked.
pub(super) fn servers(run: &Run) -> Vec<String> {
    let down = run.spread.iter().filter_map(|share| Some((share, share.unavailable.as_ref()?)));
    down.map(|(share, why)| {
        format!(
            "Server {} was unavailable ({why}): {} went to the next server.",
            share.address,
            counted(share.skipped, "operation")
        )
    })
    .collect()
}
