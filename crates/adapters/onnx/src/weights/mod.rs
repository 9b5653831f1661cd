//! Loads a model's weights once for all sessions of a process.
//!
//! A session that loads a file keeps its weights, and the packed weights that it derives from them. With
//! external values, all sessions share both.

mod constants;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ort::session::builder::{PrepackedWeights, SessionBuilder};
use ort::value::{DynValue, Tensor};

use crate::runtime::{self, NetworkError, check_size, text};
use constants::{Constant, Numbers};

/// The weights of one ONNX file.
pub(crate) struct Weights {
    values: Vec<(String, Arc<DynValue>)>,
    /// The packed weights that the sessions derive.
    packed: PrepackedWeights,
}

impl Weights {
    /// Reads the weights. Unexpected contents are left to the sessions, which report errors in the file.
    ///
    /// # Errors
    /// The library or the file cannot be read.
    pub(crate) fn read(library: &Path, model: &Path) -> Result<Self, NetworkError> {
        check_size(model)?;
        // Values need the loaded library.
        runtime::environment(library).map_err(NetworkError::Runtime)?;
        let file = fs::read(model).map_err(|error| NetworkError::Model(error.to_string()))?;
        let values = constants::large(&file).into_iter().map(|constant| {
            let name = constant.name.to_owned();
            Ok((name, Arc::new(value(&constant).map_err(NetworkError::Model)?)))
        });
        Ok(Self { values: values.collect::<Result<_, _>>()?, packed: PrepackedWeights::new() })
    }

    /// Adds the weights to a session that is built from the same file.
    pub(crate) fn give(&self, builder: SessionBuilder) -> Result<SessionBuilder, String> {
        let builder = self.values.iter().try_fold(builder, |builder, (name, value)| {
            builder.with_initializer(name, Arc::clone(value)).map_err(text)
        });
        builder?.with_prepacked_weights(&self.packed).map_err(text)
    }
}

fn value(constant: &Constant<'_>) -> Result<DynValue, String> {
    let shape = constant.shape.clone();
    Ok(match constant.numbers {
        Numbers::F32 => {
            let (four, _) = constant.raw.as_chunks::<4>();
            let numbers: Vec<f32> = four.iter().map(|four| f32::from_le_bytes(*four)).collect();
            Tensor::from_array((shape, numbers)).map_err(text)?.into_dyn()
        }
        Numbers::I8 => {
            let numbers: Vec<i8> = constant.raw.iter().map(|byte| byte.cast_signed()).collect();
            Tensor::from_array((shape, numbers)).map_err(text)?.into_dyn()
        }
        Numbers::U8 => Tensor::from_array((shape, constant.raw.to_vec())).map_err(text)?.into_dyn(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use crate::testing;

    fn vectors(network: &mut Network, tokens: &[i64]) -> Vec<f32> {
        let mut found = Vec::new();
        network.run(tokens, 1, |_, vectors| found.extend_from_slice(vectors)).unwrap();
        found
    }

    /// The resident memory of this process in bytes.
    fn resident_bytes() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// Set in a child process that measures only its own memory.
    const ALONE: &str = "PLIMSOLL_TEST_ALONE";

    #[test]
    fn a_further_session_with_common_weights_costs_less_than_half_of_one_with_its_own() {
        // Tests of one process share its memory, so this test measures in a child process.
        if std::env::var_os(ALONE).is_none() {
            let name = "weights::tests::a_further_session_with_common_weights_costs_less_than_half_of_one_with_its_own";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let ended = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
            let words = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && words.contains("1 passed"), "{words}");
            return;
        }
        let files = testing::installed();
        let load = |weights: Option<&Weights>| Network::load(&files, 30_521, 16, weights).ok().unwrap();
        let weights = Weights::read(&files.library, &files.model).ok().unwrap();
        let mut held = vec![load(Some(&weights)), load(None)];
        let mut cost = |weights: Option<&Weights>| {
            let before = resident_bytes();
            held.extend((0..3).map(|_| load(weights)));
            resident_bytes().saturating_sub(before) / 3
        };
        let (common, own) = (cost(Some(&weights)), cost(None));
        println!(
            "a further session: {} KiB with common weights, {} KiB with its own",
            common >> 10,
            own >> 10
        );
        assert!(common * 2 < own, "{common} and {own} bytes");
    }

    #[test]
    fn sessions_with_common_weights_return_the_same_vectors() {
        let (files, tokens) = (testing::installed(), [101, 2009, 2003, 1037, 3231, 102]);
        let load = |weights: Option<&Weights>| Network::load(&files, 30_521, 16, weights).ok().unwrap();
        let weights = Weights::read(&files.library, &files.model).ok().unwrap();
        assert!(weights.values.len() > 10, "{} are shared", weights.values.len());
        let expected = vectors(&mut load(None), &tokens);
        let (mut first, mut second) = (load(Some(&weights)), load(Some(&weights)));
        assert_eq!(vectors(&mut first, &tokens), expected);
        drop(first);
        assert_eq!(vectors(&mut second, &tokens), expected);
    }
}
