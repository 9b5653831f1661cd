//! Makes the bodies of the workload `files`: blocks of files, as one object or with one file per line.

use std::io::Write;
use std::sync::Arc;

use plimsoll_http::setup::{Workload, WorkloadContext};
use plimsoll_measure::random::{STEP, mix};
use plimsoll_systems::WorkloadResult;
use serde::Deserialize;
use serde_json::Value;

/// The maximum number of files in a body.
const FILES_MAX: u64 = 1_000_000;
/// The size of each file in the catalogue, in bytes.
const FILE_BYTES: u64 = 1_000;

/// The settings, as typed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    /// The number of files in a body.
    files: u64,
    /// The form of a body.
    #[serde(default)]
    form: Form,
    /// The number of filled-in datasets. In the form `block` they get the blocks in turn.
    #[serde(default = "datasets_default")]
    datasets: u64,
}

const fn datasets_default() -> u64 {
    1
}

/// The form of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// SciCat's object with all files.
    #[default]
    Block,
    /// One file per line.
    Lines,
}

/// Builds the workload from its settings.
///
/// # Errors
/// When a setting is invalid.
pub fn make(settings: &Value, context: WorkloadContext) -> WorkloadResult {
    let typed = Typed::deserialize(settings);
    let typed = typed.map_err(|error| format!("{error}; write {{files: {{files: 1000}}}}"))?;
    if !(1..=FILES_MAX).contains(&typed.files) {
        return Err(format!("files.files: {}; give a number from 1 to {FILES_MAX}", typed.files));
    }
    if typed.datasets == 0 {
        return Err("files.datasets: give the number of the filled-in datasets, at least 1".into());
    }
    Ok(Arc::new(Files { typed, seed: context.seed }))
}

/// Blocks of files as request bodies.
#[derive(Clone, Copy, Debug)]
struct Files {
    typed: Typed,
    seed: u64,
}

impl Files {
    /// Appends a file: a name, a size, a time, a checksum and owners, as the published assessment sends them.
    fn file(&self, number: u64, file: u64, out: &mut Vec<u8>) {
        let hash = mix(self.seed ^ mix(number.wrapping_add(STEP)) ^ mix(file));
        let more = [1, 2, 3].map(|step| mix(hash.wrapping_add(step)));
        // Writing to a vector does not fail.
        let _ = write!(
            out,
            r#"{{"path":"{:08x}.dat","size":{FILE_BYTES},"time":"2025-01-01T00:00:00.000Z","chk":"{hash:016x}{:016x}{:016x}{:016x}","uid":"bench","gid":"bench","perm":"-rw-r--r--"}}"#,
            file, more[0], more[1], more[2]
        );
    }

    fn files(&self, number: u64, separator: u8, out: &mut Vec<u8>) {
        for file in 0..self.typed.files {
            if file > 0 {
                out.push(separator);
            }
            self.file(number, file, out);
        }
    }
}

impl Workload for Files {
    fn body(&self, number: u64, out: &mut Vec<u8>) {
        match self.typed.form {
            Form::Lines => self.files(number, b'\n', out),
            Form::Block => {
                let (dataset, size) = (number % self.typed.datasets, self.typed.files * FILE_BYTES);
                let pid = format!("PID.SAMPLE.PREFIX/predefined_{dataset}");
                let head =
                    format!(r#"{{"datasetId":"{pid}","size":{size},"chkAlg":"sha256","dataFileList":["#);
                out.extend_from_slice(head.as_bytes());
                self.files(number, b',', out);
                out.extend_from_slice(b"]}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(settings: &Value, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        make(settings, WorkloadContext { seed: 1, start_ms: 0 }).unwrap().body(number, &mut out);
        out
    }

    #[test]
    fn a_block_has_its_files_and_belongs_to_the_datasets_in_turn() {
        let block: Value = serde_json::from_slice(&body(&json!({"files": 3, "datasets": 5}), 7)).unwrap();
        assert_eq!(
            (&block["datasetId"], &block["size"]),
            (&json!("PID.SAMPLE.PREFIX/predefined_2"), &json!(3000))
        );
        let files = block["dataFileList"].as_array().unwrap();
        assert_eq!((files.len(), files[1]["chk"].as_str().unwrap().len()), (3, 64));
        assert_ne!(files[0]["path"], files[1]["path"]);
    }

    #[test]
    fn lines_hold_a_file_each() {
        let text = String::from_utf8(body(&json!({"files": 3, "form": "lines"}), 0)).unwrap();
        let files: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((files.len(), files[2]["path"].as_str()), (3, Some("00000002.dat")));
    }

    #[test]
    fn the_longest_block_of_the_assessment_fits_into_the_limit_of_scicat() {
        assert!(body(&json!({"files": 75_000}), 0).len() < 16 << 20);
    }

    #[test]
    fn invalid_settings_are_refused_with_an_example() {
        for (settings, part) in [
            (json!({}), "{files: {files: 1000}}"),
            (json!({"files": 0}), "from 1 to"),
            (json!({"files": 1, "datasets": 0}), "at least 1"),
            (json!({"files": 1, "form": "array"}), "array"),
        ] {
            let error = make(&settings, WorkloadContext { seed: 0, start_ms: 0 }).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
