//! Writes the directory of a pipeline's run.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use plimsoll_measure::stream::{Produced, Second, Stream};

use super::typed::PipelineFile;
use plimsoll_run::run_dir::{fresh, occupied, write_private};

const FILE: &str = "pipeline.yaml";
const SECONDS: &str = "seconds.ndjson";
const SUMMARY: &str = "pipeline.json";
/// The ledger of a producer: a line for each range of acknowledged records.
const PRODUCED: &str = "acknowledged.ndjson";

/// The directory of a pipeline's run.
pub struct Dir {
    path: PathBuf,
    seconds: BufWriter<File>,
    /// The ledger, from the first acknowledged record on.
    produced: Option<BufWriter<File>>,
}

/// Reads the ledger in the directory of a run that produced records. A line that a kill cut short is left out.
///
/// # Errors
/// The directory has no ledger, or an empty one, or a line cannot be read.
pub fn read_produced(run: &Path) -> anyhow::Result<Vec<Produced>> {
    let path = run.join(PRODUCED);
    let text = fs::read_to_string(&path).with_context(|| {
        format!(
            "read {}; name the directory of a pipeline's run from a `generator` to `kafka` that had a record acknowledged",
            path.display()
        )
    })?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |(at, line)| {
        serde_json::from_str(line).with_context(|| format!("read {}, line {}", path.display(), at + 1))
    };
    let ledger: Vec<_> = whole.lines().enumerate().map(line).collect::<anyhow::Result<_>>()?;
    ensure!(
        !ledger.is_empty(),
        "{} names no acknowledged record, so nothing can be compared with it: name the directory of another run",
        path.display()
    );
    match ledger.iter().position(|range: &Produced| range.first > range.last || range.last == u64::MAX) {
        Some(at) => {
            bail!("{}, line {}: its offsets are no range; name an unchanged ledger", path.display(), at + 1)
        }
        None => Ok(ledger),
    }
}

impl Dir {
    /// Creates the directory, and writes the resolved file into it.
    ///
    /// # Errors
    /// The directory is not empty, or cannot be written.
    pub fn create(out: Option<&Path>, file: &PipelineFile, started_ms: u64) -> anyhow::Result<Self> {
        let path = out.map_or_else(|| fresh(&file.name, started_ms), Path::to_owned);
        if let Some(fault) = occupied(&path) {
            bail!("{fault}: name another directory with --out");
        }
        let here = || format!("make the directory {}; name another place with --out", path.display());
        fs::create_dir_all(&path).with_context(here)?;
        let text =
            serde_saphyr::to_string(file).map_err(|error| anyhow!("write the pipeline as YAML: {error}"))?;
        write_private(&path.join(FILE), &text)?;
        let seconds = BufWriter::new(File::create(path.join(SECONDS)).with_context(here)?);
        Ok(Self { path, seconds, produced: None })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a second; when this returns, the line is handed to the system.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn keep(&mut self, second: &Second) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.seconds, second)?;
        self.seconds.write_all(b"\n")?;
        Ok(self.seconds.flush()?)
    }

    /// Appends acknowledged records to the ledger; when this returns, the lines are handed to the system.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn keep_produced(&mut self, ranges: &[Produced]) -> anyhow::Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let file = match &mut self.produced {
            Some(file) => file,
            none => none.insert(BufWriter::new(File::create(self.path.join(PRODUCED))?)),
        };
        for range in ranges {
            serde_json::to_writer(&mut *file, range)?;
            file.write_all(b"\n")?;
        }
        Ok(file.flush()?)
    }

    /// Writes the summary.
    ///
    /// # Errors
    /// The summary cannot be written.
    pub fn conclude(&self, stream: &Stream) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(stream)? + "\n";
        fs::write(self.path.join(SUMMARY), text).with_context(|| format!("write to {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_read_back_without_a_line_that_was_cut_short() {
        let out = tempfile::tempdir().unwrap();
        let file: PipelineFile =
            serde_saphyr::from_str("source: {generator: {}}\nsink: {noop: {}}\n").unwrap();
        let mut dir = Dir::create(Some(&out.path().join("run")), &file, 0).unwrap();
        assert!(read_produced(dir.path()).unwrap_err().to_string().contains("name the directory of a"));
        let range =
            |first| Produced { topic: "t".into(), partition: 0, first, last: first + 4, checksum: first };
        dir.keep_produced(&[range(0)]).unwrap();
        dir.keep_produced(&[range(5), range(10)]).unwrap();
        assert_eq!(read_produced(dir.path()).unwrap(), [range(0), range(5), range(10)]);
        let path = dir.path().join(PRODUCED);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(read_produced(dir.path()).unwrap(), [range(0), range(5)]);
    }

    #[test]
    fn a_ledger_without_a_whole_line_or_with_impossible_offsets_is_refused() {
        let out = tempfile::tempdir().unwrap();
        let line = |first: u64, last: u64| {
            format!(r#"{{"topic":"t","partition":0,"first":{first},"last":{last},"checksum":0}}"#) + "\n"
        };
        for (text, words) in [
            (String::new(), "names no acknowledged record"),
            (r#"{"topic""#.to_owned(), "names no acknowledged record"),
            (line(0, 4) + &line(6, 5), "line 2: its offsets are no range"),
            (line(0, u64::MAX), "line 1: its offsets are no range"),
        ] {
            fs::write(out.path().join(PRODUCED), &text).unwrap();
            let refused = read_produced(out.path()).unwrap_err().to_string();
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }
}
