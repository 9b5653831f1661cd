//! Quantises weights to 8 bits.
//!
//! Each column of a matrix has its own scale, so that a column of small numbers keeps its precision; zero
//! stays zero. The other factor is converted to bytes at run time (`DynamicQuantizeMatMul`).

use super::weights::Matrix;

/// The largest signed byte with a negative counterpart.
const WHOLE: f32 = 127.0;
/// Without instructions that add four products at once (VNNI), x86 adds two products in 16 bits. The sum
/// overflows unless the weights have one bit less.
const REDUCED: f32 = 63.0;

/// The used range of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// The whole byte.
    Whole,
    /// One bit less.
    Reduced,
}

impl Range {
    /// The range that this machine adds without overflow.
    pub(crate) fn of_this_machine() -> Self {
        #[cfg(target_arch = "x86_64")]
        if !(std::is_x86_feature_detected!("avx512vnni") || std::is_x86_feature_detected!("avxvnni")) {
            return Range::Reduced;
        }
        Range::Whole
    }
}

/// A matrix in bytes, and the scale of each column: value = byte × scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantised {
    pub(crate) bytes: Vec<i8>,
    pub(crate) scales: Vec<f32>,
}

/// Converts a matrix to bytes.
pub(crate) fn by_column(matrix: &Matrix, range: Range) -> Quantised {
    let limit = match range {
        Range::Whole => WHOLE,
        Range::Reduced => REDUCED,
    };
    let mut scales = vec![f32::MIN_POSITIVE; matrix.columns];
    for row in matrix.values.chunks_exact(matrix.columns) {
        for (scale, value) in scales.iter_mut().zip(row) {
            *scale = scale.max(value.abs() / limit);
        }
    }
    let rows = matrix.values.chunks_exact(matrix.columns);
    let byte = |(value, scale): (&f32, &f32)| (value / scale).round_ties_even().clamp(-limit, limit) as i8;
    let bytes = rows.flat_map(|row| row.iter().zip(&scales).map(byte)).collect();
    Quantised { bytes, scales }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: Range, expected: &[i8]) {
        let matrix = Matrix { rows: 2, columns: 3, values: vec![1.0, 0.0, -8.0, -0.3, 0.0, 3.0] };
        let found = by_column(&matrix, range);
        assert_eq!(found.bytes, expected);
        for (index, value) in matrix.values.iter().enumerate() {
            let scale = found.scales[index % 3];
            assert!((f32::from(found.bytes[index]) * scale - value).abs() <= scale / 2.0 + 1e-6);
        }
    }

    #[test]
    fn every_column_uses_its_range_and_zero_stays_zero() {
        check(Range::Whole, &[127, 0, -127, -38, 0, 48]);
        check(Range::Reduced, &[63, 0, -63, -19, 0, 24]);
    }
}
