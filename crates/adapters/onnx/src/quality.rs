//! Measures how close the vectors of one model are to those of another.
//!
//! A smaller model is faster and less exact; its speed means nothing without its quality.

use std::fmt;

/// The closeness of two models' vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// The mean cosine between a text's two vectors; 1 at best.
    pub cosine_mean: f64,
    /// The smallest cosine.
    pub cosine_min: f64,
    /// The share of texts whose nearest other text is the same in both models, 0 to 1.
    pub top1_agreement: f64,
    /// The number of compared texts.
    pub texts: usize,
}

impl Quality {
    /// Compares two models' vectors of the same texts, each `texts × dimensions` numbers, each vector of
    /// length one. Searching the nearest texts compares all pairs, so the time grows with the square of the
    /// number of texts. `None` unless both have the same number of vectors, at least three.
    pub fn between(exact: &[f32], other: &[f32], dimensions: usize) -> Option<Self> {
        let texts = exact.len().checked_div(dimensions)?;
        if exact.len() != other.len() || texts * dimensions != exact.len() || texts < 3 {
            return None;
        }
        let pairs = exact.chunks_exact(dimensions).zip(other.chunks_exact(dimensions));
        let cosines: Vec<f64> = pairs.map(|(exact, other)| cosine(exact, other)).collect();
        let same = (0..texts)
            .filter(|&text| nearest(exact, dimensions, text) == nearest(other, dimensions, text))
            .count();
        Some(Quality {
            cosine_mean: cosines.iter().sum::<f64>() / count(texts),
            cosine_min: cosines.iter().copied().fold(f64::INFINITY, f64::min),
            top1_agreement: count(same) / count(texts),
            texts,
        })
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quality { cosine_mean, cosine_min, top1_agreement, texts } = self;
        write!(
            f,
            "cosine {cosine_mean:.4} mean, {cosine_min:.4} min; top-1 agreement {top1_agreement:.3} of {texts} texts"
        )
    }
}

/// The cosine of the angle between two vectors.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The number of the text whose vector is nearest to that of `text`, excluding itself.
fn nearest(all: &[f32], dimensions: usize, text: usize) -> Option<usize> {
    let vectors = || all.chunks_exact(dimensions).enumerate();
    let own = vectors().nth(text)?.1;
    let others = vectors().filter(|(other, _)| *other != text);
    others
        .map(|(other, vector)| (other, cosine(own, vector)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|it| it.0)
}

fn count(texts: usize) -> f64 {
    texts as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_vectors_agree_fully() {
        let vectors = [1.0, 0.0, 0.8, 0.6, 0.0, 1.0];
        let quality = Quality::between(&vectors, &vectors, 2).unwrap();
        assert!((quality.cosine_mean - 1.0).abs() < 1e-9 && (quality.cosine_min - 1.0).abs() < 1e-9);
        assert!((quality.top1_agreement - 1.0).abs() < 1e-9 && quality.texts == 3);
    }

    #[test]
    fn a_turned_vector_lowers_the_cosine_and_changes_the_nearest() {
        // The second text is near the first text in one model, and near the third text in the other.
        let exact = [1.0, 0.0, 0.8, 0.6, -1.0, 0.0];
        let other = [1.0, 0.0, -0.8, 0.6, -1.0, 0.0];
        let quality = Quality::between(&exact, &other, 2).unwrap();
        assert!((quality.cosine_min - (-0.28)).abs() < 1e-6, "{quality}");
        assert!((quality.cosine_mean - (1.0 - 0.28 + 1.0) / 3.0).abs() < 1e-6, "{quality}");
        assert!((quality.top1_agreement - 2.0 / 3.0).abs() < 1e-9, "{quality}");
    }

    #[test]
    fn incomparable_vectors_have_no_quality() {
        assert_eq!(Quality::between(&[1.0; 6], &[1.0; 4], 2), None);
        assert_eq!(
            Quality::between(&[1.0; 4], &[1.0; 4], 2),
            None,
            "two texts are each other's nearest always"
        );
        assert_eq!(Quality::between(&[1.0; 7], &[1.0; 7], 2), None);
        assert_eq!(Quality::between(&[], &[], 0), None);
    }
}
