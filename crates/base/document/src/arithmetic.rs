//! Computes logarithm and exponential only with additions, multiplications and divisions, which IEEE 754 defines to the last
//! bit. The platform's own functions differ between C libraries, but documents must not.

const LN_2: f64 = std::f64::consts::LN_2;
/// The upper bits of ln 2: a product with an exponent is exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
/// ln 2 − [`LN_2_HIGH`].
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// The series of artanh(s) ÷ s in powers of s²: 1 ÷ (2k + 1).
const ARTANH: [f64; 11] = {
    let mut series = [1.0; 11];
    let mut k = 1;
    while k < series.len() {
        series[k] = 1.0 / (2 * k + 1) as f64;
        k += 1;
    }
    series
};
/// The series of e^x: 1 ÷ k!.
const EXP: [f64; 15] = {
    let mut series = [1.0; 15];
    let mut k = 1;
    while k < series.len() {
        series[k] = series[k - 1] / k as f64;
        k += 1;
    }
    series
};

/// The natural logarithm of a positive, normal number, to about 1e-15.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh((m − 1) / (m + 1)), and |s| is below 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let series = ARTANH.iter().rev().fold(0.0, |sum, coefficient| sum * (s * s) + coefficient);
    exponent as f64 * LN_2_HIGH + (2.0 * s * series + exponent as f64 * LN_2_LOW)
}

/// e to the power of `x`, to about 1e-15; 0 below −700, clamped above 700.
pub(crate) fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let x = x.min(700.0);
    let power = (x / LN_2).round();
    let rest = (x - power * LN_2_HIGH) - power * LN_2_LOW;
    let series = EXP.iter().rev().fold(0.0, |sum, coefficient| sum * rest + coefficient);
    series * f64::from_bits(((power as i64 + 1023) as u64) << 52)
}

/// ln(1 + x) ÷ x, which tends to 1 at 0; `x` above −1.
pub(crate) fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-3 {
        return ln(1.0 + x) / x;
    }
    1.0 - x * (1.0 / 2.0 - x * (1.0 / 3.0 - x * (1.0 / 4.0 - x * (1.0 / 5.0 - x / 6.0))))
}

/// (e^x − 1) ÷ x, which tends to 1 at 0.
pub(crate) fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-3 {
        return (exp(x) - 1.0) / x;
    }
    1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, got: f64, want: f64) {
        assert!((got - want).abs() <= 4e-15 * want.abs().max(1e-2), "{name}: {got:e}, not {want:e}");
    }

    #[test]
    fn agrees_with_the_platform_to_the_last_few_bits() {
        for step in 1..4000 {
            let x = f64::from(step) * 0.0173;
            check("ln", ln(x), x.ln());
            check("ln", ln(x * 1e12), (x * 1e12).ln());
            check("exp", exp(x), x.exp());
            check("exp", exp(-x), (-x).exp());
        }
    }

    #[test]
    fn quotients_are_smooth_through_zero() {
        for x in [-0.9, -0.002, -0.0009, -1e-9, 1e-9, 0.0009, 0.002, 3.0_f64] {
            check("ln_1p", ln_1p_over(x) / 100.0, x.ln_1p() / x / 100.0);
            assert!((exp_m1_over(x) - x.exp_m1() / x).abs() < 1e-12);
        }
        assert_eq!((ln_1p_over(0.0), exp_m1_over(0.0)), (1.0, 1.0));
    }

    #[test]
    fn the_bits_are_pinned() {
        // Documents depend on these bits, so they must not change: `exp(1.0)` stays one ulp above e.
        assert_eq!(ln(10.0).to_bits(), 0x4002_6BB1_BBB5_5516);
        assert_eq!(exp(1.0).to_bits(), 0x4005_BF0A_8B14_576A);
    }
}
