//! Loads the library of ONNX Runtime once for the whole process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use ort::logging::LogLevel;

/// The longest ONNX file: Protocol Buffers allow no longer message.
const FILE_BYTES_MAX: u64 = 1 << 31;

/// ONNX Runtime cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The file is not a library of ONNX Runtime, or is too old.
    #[error("{path:?} is not a usable ONNX Runtime ({why}): name a libonnxruntime of version 1.17 or newer")]
    Library {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Another library is already loaded.
    #[error(
        "{loaded:?} is already loaded, and a process can use only one ONNX Runtime: name the same library for every embedder, not {wanted:?}"
    )]
    Another {
        /// The loaded library.
        loaded: PathBuf,
        /// The requested library.
        wanted: PathBuf,
    },
}

/// A model file cannot be loaded.
#[derive(Debug)]
pub(crate) enum NetworkError {
    Runtime(RuntimeError),
    Model(String),
}

struct Loaded {
    library: PathBuf,
    environment: Environment,
}

static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

/// Returns the environment of a library, and loads it first if necessary.
///
/// # Errors
/// [`RuntimeError`].
pub(crate) fn environment(library: &Path) -> Result<Environment, RuntimeError> {
    let error = |why: String| RuntimeError::Library { path: library.to_owned(), why };
    let wanted = fs::canonicalize(library).map_err(|why| error(why.to_string()))?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*loaded {
        Some(Loaded { library, environment }) if *library == wanted => Ok(environment.clone()),
        Some(Loaded { library, .. }) => Err(RuntimeError::Another { loaded: library.clone(), wanted }),
        None => {
            let builder = ort::init_from(&wanted).map_err(|why| error(why.to_string()))?;
            let builder = builder.with_name("plimsoll").with_telemetry(false);
            let environment = builder.build().map_err(|why| error(why.to_string()))?;
            // Every failure returns an error, which is reported once.
            environment.set_log_level(LogLevel::Fatal);
            *loaded = Some(Loaded { library: wanted, environment: environment.clone() });
            Ok(environment)
        }
    }
}

/// Refuses a file that is too large.
pub(crate) fn check_size(model: &Path) -> Result<(), NetworkError> {
    let bytes = fs::metadata(model).map_err(|error| NetworkError::Model(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(NetworkError::Model(format!("it has {bytes} bytes, more than {FILE_BYTES_MAX}")));
    }
    Ok(())
}

/// The message of an ONNX Runtime error.
pub(crate) fn text<T>(error: ort::Error<T>) -> String {
    error.to_string()
}
