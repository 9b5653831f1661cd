//! Checks that the check of consistency names every anomaly of a simulated store, and nothing of a store without one.

use std::collections::BTreeSet;

use plimsoll_consistency::simulation::{FAULTS, Fault, SERIALIZABLE, Simulation};
use plimsoll_consistency::{InvalidHistory, Kind, check};
use plimsoll_report::units::exact;

use super::{Finding, Score};

/// The histories with each fault.
const HISTORIES: u64 = 20;
/// The histories without a fault.
const CLEAN: u64 = 1_000;

/// Injects each fault into histories of a simulated store.
///
/// # Errors
/// A history is invalid, which is a bug.
pub fn anomalies() -> anyhow::Result<Finding> {
    let mut named = 0;
    for fault in &FAULTS {
        named += u64::from(is_named(fault)?);
    }
    let mut accused = 0;
    for seed in 0..CLEAN {
        accused += u64::from(!found(seed, |_| ())?.is_empty());
    }
    let seeded = FAULTS.len() as u64;
    let figure = format!(
        "{named} of {seeded} named, each in {HISTORIES} histories; {accused} of {} histories without one accused",
        exact(CLEAN)
    );
    let passed = named == seeded && accused == 0;
    Ok(Finding { name: "a store with each anomaly", passed, figure, score: Some(Score { seeded, named }) })
}

/// Whether every history with the fault shows its anomaly, and nothing but its consequences.
fn is_named(fault: &Fault) -> Result<bool, InvalidHistory> {
    for seed in 0..HISTORIES {
        let found = found(seed, fault.inject)?;
        let is_implied = |kind: &Kind| *kind == fault.anomaly || fault.implied.contains(kind);
        if !found.contains(&fault.anomaly) || !found.iter().all(is_implied) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn found(seed: u64, fault: impl FnOnce(&mut Simulation)) -> Result<BTreeSet<Kind>, InvalidHistory> {
    let report = check(&Simulation::new(SERIALIZABLE, seed).run(fault))?;
    Ok(report.counts.into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_anomaly_is_named() {
        let finding = anomalies().unwrap();
        assert!(finding.passed, "{finding:?}");
        assert_eq!(finding.score, Some(Score { seeded: 19, named: 19 }));
    }

    #[test]
    fn a_fault_that_shows_another_anomaly_is_not_named() {
        let other = Fault { anomaly: Kind::LostUpdate, ..FAULTS[0] };
        let without = Fault { inject: |_| (), ..FAULTS[0] };
        for fault in [other, without] {
            assert!(!is_named(&fault).unwrap(), "{fault:?}");
        }
    }
}
