//! Fits the universal scalability law to measured throughputs.
//!
//! X(N) = N ÷ (a + b(N−1) + cN(N−1)) with a = 1/λ, b = σ/λ, c = κ/λ, all at least zero: the law of
//! [`plimsoll_measure::ladder`] with a denominator that is linear in its parameters. Linear least squares of
//! N ÷ X give the start (Gunther's own method, *Guerrilla Capacity Planning*, chapter 5); weights make their
//! errors count about as errors in X. Then the method of Levenberg and Marquardt minimises the squared errors
//! in X (D. Marquardt, *J. SIAM* 11(2), 1963). A parameter that would fall below zero is held at zero. Every
//! choice of such parameters is fitted, and the best fit is kept, so the answer does not depend on a start or
//! on a random number.

use plimsoll_measure::ladder::{Peak, Point, Scalability};

/// The smallest number of different concurrencies: three parameters need at least one more point for a test.
pub const CONCURRENCIES_MIN: usize = 4;
/// The smallest share of explained variance of an accepted fit.
pub const R_SQUARED_MIN: f64 = 0.90;
/// The limit of refinement steps; the refinement converges in a few.
const STEPS_MAX: usize = 200;
/// The smallest improvement of the sum of squares, as a share, that continues the refinement.
const GAIN_MIN: f64 = 1e-15;
/// Contention or coherency below this share of the denominator at the largest concurrency is indistinguishable from zero.
const NEGLIGIBLE: f64 = 1e-9;

/// A law cannot be fitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoFit {
    /// The number of different concurrencies is too small.
    #[error("no fit: {distinct} different concurrencies were measured; measure at least {CONCURRENCIES_MIN}")]
    TooFew {
        /// The number of different concurrencies.
        distinct: usize,
    },
    /// An impossible point.
    #[error("no fit: throughput {throughput} at concurrency {concurrency} is impossible; omit this point")]
    Impossible {
        /// The concurrency; at least 1 is valid.
        concurrency: f64,
        /// The throughput; more than 0 is valid.
        throughput: f64,
    },
    /// The points do not follow the law.
    #[error(
        "no fit: the law explains {:.0} % of the variance, less than {:.0} %; measure each concurrency \
         longer, unless throughput hardly depends on it",
        (r_squared * 100.0).max(0.0).floor(),
        R_SQUARED_MIN * 100.0
    )]
    Unexplained {
        /// The share that the best fit explains; if negative, a constant explains more.
        r_squared: f64,
    },
}

/// Fits the law to (concurrency, throughput) points, in any order; a concurrency may occur several times.
///
/// # Errors
/// The points are too few, impossible, or do not follow the law.
pub fn fit(points: &[(f64, f64)]) -> Result<Scalability, NoFit> {
    check(points)?;
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    // Throughputs are divided by the largest one, so that those of any size are fitted alike.
    let scale = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let scaled: Vec<_> = points.iter().map(|(n, x)| (*n, x / scale)).collect();
    let candidates = FACES.iter().filter_map(|face| refine(&scaled, *face));
    let best = candidates.min_by(|a, b| errors(&scaled, *a).total_cmp(&errors(&scaled, *b)));
    let best = best.ok_or(NoFit::Unexplained { r_squared: 0.0 })?;
    let r_squared = r_squared(&scaled, errors(&scaled, best));
    if r_squared < R_SQUARED_MIN {
        return Err(NoFit::Unexplained { r_squared });
    }
    let largest = points.last().map_or(1.0, |point| point.0);
    Ok(law(cleaned(best, largest), scale, r_squared, &points))
}

/// a, b and c of the denominator.
type Parameters = [f64; 3];

/// The free parameters of each choice; the others are zero. The choice with all free comes first: it wins
/// among equally good fits.
const FACES: [[bool; 3]; 4] =
    [[true, true, true], [true, true, false], [true, false, true], [true, false, false]];

fn check(points: &[(f64, f64)]) -> Result<(), NoFit> {
    let sound = |n: f64, x: f64| n.is_finite() && n >= 1.0 && x.is_finite() && x > 0.0;
    if let Some((concurrency, throughput)) = points.iter().copied().find(|(n, x)| !sound(*n, *x)) {
        return Err(NoFit::Impossible { concurrency, throughput });
    }
    let mut concurrencies: Vec<f64> = points.iter().map(|point| point.0).collect();
    concurrencies.sort_by(f64::total_cmp);
    concurrencies.dedup();
    let distinct = concurrencies.len();
    if distinct < CONCURRENCIES_MIN { Err(NoFit::TooFew { distinct }) } else { Ok(()) }
}

/// The factors of a, b and c in the denominator.
fn terms(n: f64) -> [f64; 3] {
    [1.0, n - 1.0, n * (n - 1.0)]
}

fn denominator(parameters: Parameters, n: f64) -> f64 {
    terms(n).iter().zip(parameters).map(|(term, parameter)| term * parameter).sum()
}

/// The sum of the squares of the errors in X.
fn errors(points: &[(f64, f64)], parameters: Parameters) -> f64 {
    points.iter().map(|(n, x)| (x - n / denominator(parameters, *n)).powi(2)).sum()
}

/// The best parameters if only the parameters of `face` are free; none if one of them is negative.
fn refine(points: &[(f64, f64)], face: [bool; 3]) -> Option<Parameters> {
    let mut best = start(points, face)?;
    let mut sum = errors(points, best);
    let mut damping = 1e-3;
    for _ in 0..STEPS_MAX {
        let step = step(points, best, face, damping)?;
        let tried = [0, 1, 2].map(|index| best[index] + step[index]);
        let sum_tried = if is_sound(points, tried) { errors(points, tried) } else { f64::INFINITY };
        if sum_tried >= sum {
            damping *= 10.0;
            if damping > 1e12 {
                break;
            }
            continue;
        }
        let gain = sum - sum_tried;
        (best, sum, damping) = (tried, sum_tried, damping / 10.0);
        if gain <= sum * GAIN_MIN {
            break;
        }
    }
    best.iter().all(|parameter| *parameter >= 0.0).then_some(best)
}

fn is_sound(points: &[(f64, f64)], parameters: Parameters) -> bool {
    points.iter().all(|(n, _)| denominator(parameters, *n) > 0.0)
}

/// Linear least squares of N ÷ X, each weighted by X² ÷ N, the ratio between the errors of X and of N ÷ X.
fn start(points: &[(f64, f64)], face: [bool; 3]) -> Option<Parameters> {
    let rows = points.iter().map(|(n, x)| {
        let weight = x * x / n;
        (terms(*n).map(|term| term * weight), n / x * weight)
    });
    let solved = solve(normal(rows, 0.0), face)?;
    if is_sound(points, solved) {
        return Some(solved);
    }
    let clipped = [solved[0].max(f64::MIN_POSITIVE), solved[1].max(0.0), solved[2].max(0.0)];
    is_sound(points, clipped).then_some(clipped)
}

/// One step of Levenberg and Marquardt's method.
fn step(points: &[(f64, f64)], at: Parameters, face: [bool; 3], damping: f64) -> Option<Parameters> {
    let rows = points.iter().map(|(n, x)| {
        let below = denominator(at, *n);
        (terms(*n).map(|term| -n * term / (below * below)), x - n / below)
    });
    solve(normal(rows, damping), face)
}

/// JᵀJ with `damping` on its diagonal, and Jᵀr as its last column.
fn normal(rows: impl Iterator<Item = ([f64; 3], f64)>, damping: f64) -> [[f64; 4]; 3] {
    let mut sums = [[0.0; 4]; 3];
    for (row, value) in rows {
        for (index, sums) in sums.iter_mut().enumerate() {
            for (sum, other) in sums.iter_mut().zip(row.iter().chain([&value])) {
                *sum += row[index] * other;
            }
        }
    }
    for (index, sums) in sums.iter_mut().enumerate() {
        sums[index] *= 1.0 + damping;
    }
    sums
}

/// Solves for the free parameters by elimination; the others are zero. Returns none if the equations are singular.
fn solve(mut equations: [[f64; 4]; 3], face: [bool; 3]) -> Option<Parameters> {
    for index in 0..3 {
        if !face[index] {
            equations.iter_mut().for_each(|row| row[index] = 0.0);
            equations[index] = [0.0; 4];
            equations[index][index] = 1.0;
        }
    }
    for column in 0..3 {
        // The matrix is symmetric and positive semidefinite: elimination along its diagonal needs no exchange
        // of rows.
        let pivot = equations[column];
        if pivot[column] == 0.0 {
            return None;
        }
        for (_, row) in equations.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(pivot).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    let solved = [0, 1, 2].map(|index| equations[index][3] / equations[index][index]);
    solved.iter().all(|value| value.is_finite()).then_some(solved)
}

/// 1 − the errors' squares ÷ the squares around the mean; 1 if the errors vanish, even without variance.
fn r_squared(points: &[(f64, f64)], errors: f64) -> f64 {
    let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    let around: f64 = points.iter().map(|point| (point.1 - mean).powi(2)).sum();
    let whole: f64 = points.iter().map(|point| point.1.powi(2)).sum();
    if errors <= whole * f64::EPSILON { 1.0 } else { 1.0 - errors / around.max(f64::MIN_POSITIVE) }
}

/// A parameter within rounding of zero counts as zero: a peak at a concurrency of a million is no peak.
fn cleaned([a, b, c]: Parameters, largest: f64) -> Parameters {
    let [_, second, third] = terms(largest);
    let floor = denominator([a, b, c], largest) * NEGLIGIBLE;
    let keep = |parameter: f64, term: f64| if parameter * term > floor { parameter } else { 0.0 };
    [a, keep(b, second), keep(c, third)]
}

fn law([a, b, c]: Parameters, scale: f64, r_squared: f64, points: &[(f64, f64)]) -> Scalability {
    let (sigma, kappa) = (b / a, c / a);
    let points = points.iter().map(|(n, x)| Point { concurrency: *n, throughput: *x }).collect();
    let law = Scalability { lambda: scale / a, sigma, kappa, r_squared, points, ..Scalability::default() };
    let peak = (kappa > 0.0).then(|| {
        let concurrency = ((1.0 - sigma).max(0.0) / kappa).sqrt().max(1.0);
        Peak { concurrency, throughput: law.at(concurrency) }
    });
    let bound = (kappa == 0.0 && sigma > 0.0).then(|| law.lambda / sigma);
    Scalability { peak, bound, ..law }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    fn truth(lambda: f64, sigma: f64, kappa: f64) -> Scalability {
        Scalability { lambda, sigma, kappa, ..Scalability::default() }
    }

    fn points(law: &Scalability, noise: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
        LADDER.iter().enumerate().map(|(index, n)| (*n, law.at(*n) * (1.0 + noise(index)))).collect()
    }

    fn near(found: f64, true_value: f64, error: f64) -> bool {
        (found - true_value).abs() <= true_value.abs() * error
    }

    #[test]
    fn exact_points_return_their_parameters() {
        for (lambda, sigma, kappa) in
            [(995.0, 0.0267, 0.000_769), (1e6, 0.3, 1e-6), (0.02, 0.001, 0.01), (40.0, 0.0, 0.002)]
        {
            let law = truth(lambda, sigma, kappa);
            let found = fit(&points(&law, |_| 0.0)).unwrap();
            assert!(near(found.lambda, lambda, 1e-6), "{found:?}");
            assert!((found.sigma - sigma).abs() < 1e-6 && near(found.kappa, kappa, 1e-4), "{found:?}");
            assert!(found.r_squared > 0.999_999);
            let peak = found.peak.unwrap();
            assert!(near(peak.concurrency, ((1.0 - sigma) / kappa).sqrt(), 1e-4), "{found:?}");
            assert!(near(peak.throughput, law.at(((1.0 - sigma) / kappa).sqrt()), 1e-6), "{found:?}");
            assert_eq!(found.bound, None);
        }
    }

    #[test]
    fn throughput_that_only_grows_has_no_peak() {
        let linear = fit(&points(&truth(250.0, 0.0, 0.0), |_| 0.0)).unwrap();
        assert_eq!((linear.sigma, linear.kappa, linear.peak, linear.bound), (0.0, 0.0, None, None));
        assert!(near(linear.lambda, 250.0, 1e-9));
        let amdahl = fit(&points(&truth(250.0, 0.05, 0.0), |_| 0.0)).unwrap();
        assert_eq!((amdahl.kappa, amdahl.peak), (0.0, None));
        assert!(near(amdahl.bound.unwrap(), 5000.0, 1e-6), "{amdahl:?}");
    }

    #[test]
    fn throughput_that_only_falls_peaks_at_one() {
        let found = fit(&points(&truth(250.0, 1.4, 0.01), |_| 0.0)).unwrap();
        assert_eq!(found.peak.unwrap().concurrency, 1.0);
        assert!(near(found.peak.unwrap().throughput, 250.0, 1e-6));
    }

    #[test]
    fn constant_throughput_is_all_contention() {
        let found = fit(&LADDER.map(|n| (n, 300.0))).unwrap();
        assert!(near(found.sigma, 1.0, 1e-9) && found.kappa == 0.0, "{found:?}");
        assert!(near(found.bound.unwrap(), 300.0, 1e-9));
    }

    /// A repeatable number from −1 to 1.
    fn noise(seed: u64, index: usize) -> f64 {
        let mixed = (seed * 1000 + index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    #[test]
    fn noise_of_three_percent_moves_the_peak_by_less_than_a_quarter() {
        let law = truth(995.0, 0.0267, 0.000_769);
        let peak = ((1.0 - law.sigma) / law.kappa).sqrt();
        for seed in 0..500 {
            let found = fit(&points(&law, |index| 0.03 * noise(seed, index))).unwrap();
            let at = found.peak.unwrap();
            assert!(near(found.lambda, law.lambda, 0.06), "seed {seed}: {found:?}");
            assert!(near(at.concurrency, peak, 0.25), "seed {seed}: {found:?}");
            assert!(near(at.throughput, law.at(peak), 0.05), "seed {seed}: {found:?}");
            assert!(
                found.sigma >= 0.0 && found.kappa >= 0.0 && found.r_squared >= 0.97,
                "seed {seed}: {found:?}"
            );
        }
    }

    #[test]
    fn no_other_parameters_explain_the_points_better() {
        for seed in 0..100 {
            let law = truth(100.0, 0.02, 0.0005);
            let points = points(&law, |index| 0.1 * noise(seed, index));
            let Ok(found) = fit(&points) else { continue };
            let errors =
                |law: &Scalability| -> f64 { points.iter().map(|(n, x)| (x - law.at(*n)).powi(2)).sum() };
            for (lambda, sigma, kappa) in [
                (1.01, 1.0, 1.0),
                (0.99, 1.0, 1.0),
                (1.0, 1.05, 1.0),
                (1.0, 0.95, 1.0),
                (1.0, 1.0, 1.05),
                (1.0, 1.0, 0.95),
            ] {
                let varied = Scalability {
                    lambda: found.lambda * lambda,
                    sigma: found.sigma * sigma,
                    kappa: found.kappa * kappa,
                    ..found.clone()
                };
                assert!(errors(&varied) >= errors(&found) * (1.0 - 1e-9), "seed {seed}: {found:?}");
            }
        }
    }

    #[test]
    fn the_order_of_the_points_and_repetitions_do_not_matter() {
        let law = truth(100.0, 0.02, 0.0005);
        let points = points(&law, |index| 0.02 * noise(7, index));
        let whole = fit(&points).unwrap();
        let backward: Vec<_> = points.iter().rev().copied().collect();
        assert_eq!(fit(&backward).unwrap(), whole);
        let twice = fit(&[points.clone(), points].concat()).unwrap();
        assert!(near(twice.sigma, whole.sigma, 1e-9) && near(twice.kappa, whole.kappa, 1e-9), "{twice:?}");
    }

    #[track_caller]
    fn check_refused(points: &[(f64, f64)], part: &str) {
        let refusal = fit(points).unwrap_err().to_string();
        assert!(refusal.starts_with("no fit: ") && refusal.contains(part), "{refusal}");
    }

    #[test]
    fn inconclusive_points_are_refused() {
        check_refused(&[], "0 different");
        check_refused(&[(1.0, 10.0), (2.0, 19.0), (4.0, 33.0), (4.0, 34.0)], "3 different concurrencies");
        check_refused(&[(1.0, 10.0), (2.0, 0.0)], "throughput 0 at concurrency 2");
        check_refused(&[(0.5, 10.0)], "concurrency 0.5");
        check_refused(&[(1.0, f64::NAN)], "NaN");
        let jagged: Vec<_> = LADDER
            .iter()
            .enumerate()
            .map(|(index, n)| (*n, if index % 2 == 0 { 10.0 } else { 100.0 }))
            .collect();
        check_refused(&jagged, "of the variance");
    }
}
