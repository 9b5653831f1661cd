//! Fits one bound's excess as a function of the rate: by an isotonic regression, which assumes no shape, and by a curve.
//!
//! ```text
//! mean(rate) = floor + λ / (1 + λ / cap),  λ = exp(level + slope · ln(rate / near))
//! ```
//!
//! The floor is the excess that does not depend on the rate, and the cap is that of a rate at which every operation is over.
//! The curve is fitted by quasi-likelihood, with a variance in proportion to the mean; trials near the crossing count most.

use super::trial::Trial;

/// Trials at this distance from the crossing, as a difference of logarithms, count e times less.
const NEAR: f64 = 0.35;
/// The range of the slope, which is the power of the rate that λ grows with.
const SLOPE_MIN: f64 = 1.5;
const SLOPE_MAX: f64 = 300.0;
/// The slope at which a fit begins.
const SLOPE_FIRST: f64 = 40.0;
/// The largest number of Newton steps of a fit.
const STEPS: usize = 12;
/// The relative gain in deviance below which a fit has converged.
const CONVERGED: f64 = 1e-4;
/// Added to every mean, so that its logarithm is finite.
const MEAN_MIN: f64 = 1e-6;

/// The rates around the crossing by the isotonic regression.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bracket {
    /// The highest rate whose fitted excess is below one; none if no fitted excess is.
    pub low: Option<f64>,
    /// The lowest rate whose fitted excess is one or more; none if every fitted excess is below one.
    pub high: Option<f64>,
}

/// The trials of one bound, in the order of their rates.
#[derive(Debug)]
pub(super) struct Curve {
    rates: Vec<f64>,
    excess: Vec<f64>,
    seconds: Vec<f64>,
    cap: f64,
}

/// The parameters of a fitted curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    floor: f64,
    level: f64,
    /// The logarithm of the slope.
    slope: f64,
    deviance: f64,
}

/// The curves of all bounds.
pub(super) fn curves(trials: &[Trial]) -> Vec<Curve> {
    let mut sorted: Vec<&Trial> = trials.iter().filter(|trial| !trial.blocks.is_empty()).collect();
    sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let bounds = sorted.iter().map(|trial| trial.bounds()).max().unwrap_or(0);
    let curve = |bound| {
        let excess: Vec<_> = sorted.iter().map(|trial| trial.mean(bound)).collect();
        Curve {
            rates: sorted.iter().map(|trial| trial.rate).collect(),
            seconds: sorted.iter().map(|trial| trial.blocks.len() as f64).collect(),
            cap: excess.iter().copied().fold(2.0, f64::max),
            excess,
        }
    };
    (0..bounds).map(curve).collect()
}

impl Curve {
    /// The number of trials.
    pub(super) const fn len(&self) -> usize {
        self.rates.len()
    }

    /// Whether a trial exceeds the bound.
    pub(super) fn crosses(&self) -> bool {
        self.excess.iter().any(|excess| *excess >= 1.0)
    }

    /// The bracket when each trial counts by its weight.
    pub(super) fn bracket(&self, weights: &[f64]) -> Bracket {
        let fit = self.isotonic(weights);
        let over = fit.partition_point(|excess| *excess < 1.0);
        Bracket {
            low: over.checked_sub(1).map(|below| self.rates[below]),
            high: self.rates.get(over).copied(),
        }
    }

    /// The isotonic regression of the excess on the rate: pool adjacent violators.
    fn isotonic(&self, weights: &[f64]) -> Vec<f64> {
        // Each pool: the sum of its weighted excess, the sum of its weights, and its number of trials.
        let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(self.excess.len());
        for ((excess, seconds), weight) in self.excess.iter().zip(&self.seconds).zip(weights) {
            let weight = seconds * weight;
            let mut pool = (excess * weight, weight, 1);
            while let Some(last) = pools.last().filter(|last| last.0 * pool.1 >= pool.0 * last.1) {
                pool = (pool.0 + last.0, pool.1 + last.1, pool.2 + last.2);
                pools.pop();
            }
            pools.push(pool);
        }
        pools.iter().flat_map(|(sum, weight, count)| std::iter::repeat_n(sum / weight, *count)).collect()
    }

    /// The rate at which the fitted curve reaches one, and the fit. `near` is a first guess of the rate; the best of `floors` is
    /// used. With a floor of one or more no rate holds: the lowest rate is returned.
    pub(super) fn crossing(
        &self,
        weights: &[f64],
        near: f64,
        first: Option<Fit>,
        floors: &[f64],
    ) -> (f64, Fit) {
        let parts = self.rates.iter().zip(&self.seconds).zip(weights);
        let weights: Vec<f64> = parts
            .map(|((rate, seconds), weight)| {
                let distance = (rate / near).ln().abs() / NEAR;
                seconds * weight * (-distance.max(distance * distance)).exp()
            })
            .collect();
        let first = first.unwrap_or(Fit { floor: 0.0, level: 0.0, slope: SLOPE_FIRST.ln(), deviance: 0.0 });
        let fits = floors.iter().map(|floor| self.fit(&weights, near, Fit { floor: *floor, ..first }));
        let fit = fits.min_by(|a, b| a.deviance.total_cmp(&b.deviance)).unwrap_or(first);
        let needed = 1.0 - fit.floor;
        if needed <= 0.0 {
            return (self.rates.first().copied().unwrap_or(near), fit);
        }
        let lambda = needed / (1.0 - needed / self.cap);
        let distance = (lambda.ln() - fit.level) / fit.slope.exp();
        (near * distance.clamp(-2.0, 2.0).exp(), fit)
    }

    /// Improves level and slope by damped Newton steps on the quasi-likelihood.
    fn fit(&self, weights: &[f64], near: f64, first: Fit) -> Fit {
        let mut fit = Fit { deviance: self.deviance(weights, near, &first), ..first };
        for _ in 0..STEPS {
            let next = self.improved(weights, near, fit);
            let gain = fit.deviance - next.deviance;
            fit = next;
            if gain < CONVERGED * fit.deviance {
                break;
            }
        }
        fit
    }

    /// One step, shortened until the deviance falls; the same fit if it does not.
    fn improved(&self, weights: &[f64], near: f64, fit: Fit) -> Fit {
        let (level, slope) = self.newton(weights, near, &fit);
        let shortened = [1.0, 0.3, 0.1, 0.03].into_iter().map(|scale| {
            let level = (fit.level + (scale * level).clamp(-3.0, 3.0)).clamp(-60.0, 60.0);
            let slope = (fit.slope + (scale * slope).clamp(-1.0, 1.0)).clamp(SLOPE_MIN.ln(), SLOPE_MAX.ln());
            let next = Fit { level, slope, ..fit };
            Fit { deviance: self.deviance(weights, near, &next), ..next }
        });
        shortened.into_iter().find(|next| next.deviance < fit.deviance).unwrap_or(fit)
    }

    /// The Newton step of level and slope, from the expected second derivatives.
    fn newton(&self, weights: &[f64], near: f64, fit: &Fit) -> (f64, f64) {
        // Small additions keep the matrix regular if all trials have one rate.
        let (mut g, mut h) = ([0.0; 2], [1e-9, 0.0, 1e-2]);
        for ((rate, excess), weight) in self.rates.iter().zip(&self.excess).zip(weights) {
            let x = (rate / near).ln();
            let (mean, by_level) = self.mean_at(x, fit);
            let by_slope = by_level * fit.slope.exp() * x;
            let residual = (excess.max(0.0) - mean) / mean;
            g = [g[0] + weight * residual * by_level, g[1] + weight * residual * by_slope];
            h[0] += weight * by_level * by_level / mean;
            h[1] += weight * by_level * by_slope / mean;
            h[2] += weight * by_slope * by_slope / mean;
        }
        let determinant = h[0] * h[2] - h[1] * h[1];
        ((h[2] * g[0] - h[1] * g[1]) / determinant, (h[0] * g[1] - h[1] * g[0]) / determinant)
    }

    /// The mean at `x = ln(rate / near)`, and its derivative by the level.
    fn mean_at(&self, x: f64, fit: &Fit) -> (f64, f64) {
        let lambda = (fit.level + fit.slope.exp() * x).clamp(-30.0, 30.0).exp();
        let shrunk = 1.0 + lambda / self.cap;
        (fit.floor + lambda / shrunk + MEAN_MIN, lambda / (shrunk * shrunk))
    }

    /// Half the quasi-deviance of a variance in proportion to the mean, as for Poisson counts.
    fn deviance(&self, weights: &[f64], near: f64, fit: &Fit) -> f64 {
        let one = |((rate, excess), weight): ((&f64, &f64), &f64)| {
            let (mean, _) = self.mean_at((rate / near).ln(), fit);
            let excess = excess.max(0.0);
            let log = if excess > 0.0 { excess * (excess / mean).ln() } else { 0.0 };
            weight * (log - (excess - mean))
        };
        self.rates.iter().zip(&self.excess).zip(weights).map(one).sum()
    }
}
