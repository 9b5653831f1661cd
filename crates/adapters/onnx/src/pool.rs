//! Pools token vectors into the vector of a text: their mean, scaled to length one.

/// Averages the vectors of a text's tokens (`tokens` × `out.len()` numbers, consecutive) and scales the mean
/// to length one. False if the result has no direction, because a number is not finite or all are zero; `out`
/// is then undefined.
pub(crate) fn mean_of_length_one(tokens: &[f32], out: &mut [f32]) -> bool {
    out.fill(0.0);
    for token in tokens.chunks_exact(out.len()) {
        for (sum, value) in out.iter_mut().zip(token) {
            *sum += value;
        }
    }
    // The mean differs from the sum by a factor, and scaling removes every factor.
    scale_to_one(out)
}

fn scale_to_one(vector: &mut [f32]) -> bool {
    let length = vector.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
    if !length.is_finite() || length < f64::from(f32::MIN_POSITIVE) {
        return false;
    }
    let factor = (1.0 / length) as f32;
    vector.iter_mut().for_each(|value| *value *= factor);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: &[f32], expected: Option<[f32; 2]>) {
        let mut out = [7.0; 2];
        let found = mean_of_length_one(tokens, &mut out).then_some(out);
        match (found, expected) {
            (Some(found), Some(expected)) => {
                assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
            }
            (found, expected) => assert_eq!(found, expected),
        }
    }

    #[test]
    fn the_mean_of_the_tokens_has_length_one() {
        check(&[3.0, 4.0], Some([0.6, 0.8]));
        check(&[1.0, 0.0, 0.0, 1.0], Some([0.5_f32.sqrt(), 0.5_f32.sqrt()]));
    }

    #[test]
    fn a_vector_without_a_direction_is_reported() {
        check(&[1.0, 1.0, -1.0, -1.0], None);
        check(&[f32::NAN, 1.0], None);
        check(&[f32::INFINITY, 1.0], None);
        check(&[], None);
    }
}
