//! Adjusts p for several tests: Holm's step-down (Holm, "A simple sequentially rejective multiple test procedure",
//! 1979).

/// The adjusted p of each test: the probability of one or more false positives below a level is at most that level.
pub fn adjusted(tests: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..tests.len()).collect();
    order.sort_by(|one, other| tests[*one].total_cmp(&tests[*other]));
    let mut adjusted = vec![1.0; tests.len()];
    let mut most: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        most = most.max((tests.len() - rank) as f64 * tests[index]).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_p_is_multiplied_by_the_tests_that_are_left() {
        // By hand: sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 is 0.02, 0.03, 0.06, 0.04; none falls below the one before.
        let found = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn one_test_keeps_its_p_and_none_is_more_than_certain() {
        assert_eq!(adjusted(&[0.2]), [0.2]);
        assert_eq!(adjusted(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(adjusted(&[]).is_empty());
    }
}
