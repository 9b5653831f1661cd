//! Holds recorded noise: the results of forty real runs of one scenario in a row.
//!
//! They come from `plimsoll ab bulk-baseline --same --pairs 20 --set phases.0.stop.duration=3s --server embedded:relaxed`
//! on two cores, while the machine compiled, 2026-11-21. They vary by 19.7 % from run to run, with long tails to the low side.

/// Documents per second of each run, in the order in which they were made.
const DOCUMENTS_PER_S: [f64; 40] = [
    76_994.3, 99_987.1, 107_680.7, 88_274.6, 63_293.2, 71_053.9, 90_536.8, 105_633.2, 110_368.3, 106_477.1,
    103_284.9, 101_966.5, 56_287.6, 77_152.7, 60_452.9, 89_272.6, 68_228.8, 65_737.3, 75_623.8, 80_300.1,
    73_506.6, 86_314.8, 66_896.2, 60_332.3, 85_004.1, 87_029.0, 96_671.0, 93_518.2, 100_343.1, 102_025.5,
    103_969.8, 70_486.7, 72_450.7, 81_793.3, 93_302.0, 94_670.2, 95_514.7, 99_426.4, 112_656.0, 61_350.7,
];

/// The logarithm of each figure ÷ the mean, scaled to a standard deviation of `deviation`.
pub(super) fn residues(deviation: f64) -> Vec<f64> {
    let logs: Vec<f64> = DOCUMENTS_PER_S.iter().map(|rate| rate.ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let own = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count).sqrt();
    logs.into_iter().map(|log| (log - mean) * deviation / own).collect()
}

#[test]
fn the_residues_have_the_deviation_that_was_asked_for_and_no_bias() {
    let residues = residues(0.03);
    let mean = residues.iter().sum::<f64>() / 40.0;
    let variance = residues.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 40.0;
    assert!(mean.abs() < 1e-12 && (variance.sqrt() - 0.03).abs() < 1e-12, "{mean} {variance}");
}
