//! Computes the quantile of the normal distribution: one uniform number in, one normal number out, no loop.
//!
//! M. J. Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37 (1988),
//! function PPND16; accurate to about 1 part in 10^16. Coefficients run from the highest power to the lowest.

use crate::arithmetic::ln;

const CENTRE: ([f64; 8], [f64; 8]) = (
    [
        2509.0809287301227,
        33430.57558358813,
        67265.7709270087,
        45921.95393154987,
        13731.69376550946,
        1971.5909503065513,
        133.14166789178438,
        3.3871328727963665,
    ],
    [
        5226.495278852854,
        28729.085735721943,
        39307.89580009271,
        21213.794301586597,
        5394.196021424751,
        687.1870074920579,
        42.31333070160091,
        1.0,
    ],
);

const MIDDLE: ([f64; 8], [f64; 8]) = (
    [
        0.0007745450142783414,
        0.022723844989269184,
        0.2417807251774506,
        1.2704582524523684,
        3.6478483247632045,
        5.769497221460691,
        4.630337846156546,
        1.4234371107496835,
    ],
    [
        1.0507500716444169e-9,
        0.0005475938084995345,
        0.015198666563616457,
        0.14810397642748008,
        0.6897673349851,
        1.6763848301838038,
        2.053191626637759,
        1.0,
    ],
);

const TAIL: ([f64; 8], [f64; 8]) = (
    [
        2.0103343992922881e-7,
        2.7115555687434876e-5,
        0.0012426609473880784,
        0.026532189526576124,
        0.29656057182850487,
        1.7848265399172913,
        5.463784911164114,
        6.657904643501103,
    ],
    [
        2.0442631033899397e-15,
        1.421511758316446e-7,
        1.8463183175100548e-5,
        0.0007868691311456133,
        0.014875361290850615,
        0.1369298809227358,
        0.599832206555888,
        1.0,
    ],
);

/// The number below which a standard normal variable lies with `probability`, which is strictly between 0 and 1.
pub(crate) fn quantile(probability: f64) -> f64 {
    let centred = probability - 0.5;
    if centred.abs() <= 0.425 {
        return centred * ratio(&CENTRE, 0.180625 - centred * centred);
    }
    let tail = if centred < 0.0 { probability } else { 1.0 - probability };
    let r = (-ln(tail)).sqrt();
    let distance = if r <= 5.0 { ratio(&MIDDLE, r - 1.6) } else { ratio(&TAIL, r - 5.0) };
    distance.copysign(centred)
}

fn ratio((above, below): &([f64; 8], [f64; 8]), x: f64) -> f64 {
    polynomial(above, x) / polynomial(below, x)
}

fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meets_the_published_quantiles() {
        let published = [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.25, -0.674_489_750_196_081_7),
            (0.001, -3.090_232_306_167_813_5),
            (1e-20, -9.262_340_089_798_408),
        ];
        for (probability, want) in published {
            let got = quantile(probability);
            assert!((got - want).abs() < 1e-14 * 10.0, "{probability}: {got}, not {want}");
        }
    }
}
