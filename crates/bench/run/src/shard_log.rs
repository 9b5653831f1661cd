//! Writes and reads `shard.ndjson`: every second of a shard in full, so that shards add up exactly.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use plimsoll_load::engine::{Finished, Second};
use plimsoll_load::fault::InjectedFault;
use plimsoll_load::worker::Ended;
use serde::{Deserialize, Serialize};

/// The file in the run directory of a shard.
pub const SHARD: &str = "shard.ndjson";
/// The version of the file format.
const FORMAT: u32 = 1;
/// The largest line, in bytes: a second of hundreds of operations has some megabytes.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Shard(Head),
    Phase(Began),
    Second(Box<Second>),
    Ended(Ending),
    Closed(ShardEnd),
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: u32,
}

/// The start of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Began {
    /// The phase's index in the plan, if any.
    pub key: Option<usize>,
    /// Nanoseconds from the run's start.
    pub from_ns: u64,
    /// Wall time in milliseconds since 1970.
    pub began_ms: u64,
}

/// The end of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    to_ns: u64,
    ended: Ended,
    faults: Vec<InjectedFault>,
}

/// The facts at the end of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEnd {
    /// CPU time of the system's processes under load, in nanoseconds, if known.
    pub server_cpu_ns: Option<u64>,
}

impl From<Ending> for Finished {
    fn from(ending: Ending) -> Self {
        let Ending { to_ns, ended, faults } = ending;
        Self { to_ns, ended, faults, ..Self::default() }
    }
}

/// Writes the file during the run.
#[derive(Debug)]
pub struct Recorder {
    file: BufWriter<File>,
}

impl Recorder {
    /// Creates the file in a run directory.
    ///
    /// # Errors
    /// When a write fails.
    pub fn create(run: &Path) -> anyhow::Result<Self> {
        let path = run.join(SHARD);
        let file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
        let mut recorder = Self { file: BufWriter::new(file) };
        recorder.write(&Line::Shard(Head { format: FORMAT }))?;
        Ok(recorder)
    }

    /// Records the start of a phase.
    ///
    /// # Errors
    /// When a write fails.
    pub fn began(&mut self, began: Began) -> anyhow::Result<()> {
        self.write(&Line::Phase(began))
    }

    /// Records a second.
    ///
    /// # Errors
    /// When a write fails.
    pub fn second(&mut self, second: &Second) -> anyhow::Result<()> {
        /// Serializes like [`Line::Second`], without a copy of its histograms.
        #[derive(Serialize)]
        struct Borrowed<'a> {
            second: &'a Second,
        }
        self.write(&Borrowed { second })
    }

    /// Records the end of a phase.
    ///
    /// # Errors
    /// When a write fails.
    pub fn ended(&mut self, finished: &Finished) -> anyhow::Result<()> {
        let Finished { to_ns, ended, faults, .. } = finished.clone();
        self.write(&Line::Ended(Ending { to_ns, ended, faults }))
    }

    /// Records the end of the run.
    ///
    /// # Errors
    /// When a write fails.
    pub fn close(mut self, end: ShardEnd) -> anyhow::Result<()> {
        self.write(&Line::Closed(end))
    }

    fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let written = serde_json::to_writer(&mut self.file, line).map_err(Into::into);
        let written = written.and_then(|()| self.file.write_all(b"\n")).and_then(|()| self.file.flush());
        written.with_context(|| {
            format!("write {SHARD}; is the disk full? Free some space or name another place with --out")
        })
    }
}

/// Reads the file, one second at a time.
#[derive(Debug)]
pub struct Reader<R = BufReader<File>> {
    lines: R,
    next: Option<Line>,
    at: u64,
}

impl Reader {
    /// Opens the file of a run directory.
    ///
    /// # Errors
    /// When the file is missing or has another version.
    pub fn open(run: &Path) -> anyhow::Result<Self> {
        let path = run.join(SHARD);
        let file = File::open(&path).with_context(|| {
            format!("read {}: only `plimsoll run --shard i/n` writes it; run the shard again", path.display())
        })?;
        Self::over(BufReader::new(file)).with_context(|| format!("read {}", path.display()))
    }
}

impl<R: BufRead> Reader<R> {
    fn over(lines: R) -> anyhow::Result<Self> {
        let mut reader = Self { lines, next: None, at: 0 };
        reader.advance()?;
        match reader.advance()? {
            Some(Line::Shard(Head { format: FORMAT })) => Ok(reader),
            Some(Line::Shard(Head { format })) => {
                bail!(
                    "it has format {format}, and this version knows {FORMAT}: use the version that wrote it"
                )
            }
            _ => bail!("its first line has no format: it is damaged, run the shard again"),
        }
    }

    /// The next phase, if its start is the next line.
    pub const fn phase(&self) -> Option<Began> {
        if let Some(Line::Phase(began)) = &self.next { Some(*began) } else { None }
    }

    /// Enters the next phase.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn enter(&mut self) -> anyhow::Result<()> {
        self.advance().map(drop)
    }

    /// The next second of the phase. `None` after the last one.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn second(&mut self) -> anyhow::Result<Option<Second>> {
        if !matches!(self.next, Some(Line::Second(_))) {
            return Ok(None);
        }
        let Some(Line::Second(second)) = self.advance()? else { return Ok(None) };
        Ok(Some(*second))
    }

    /// The partial second at the end of a phase, if it comes next.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn rest(&mut self) -> anyhow::Result<Option<Second>> {
        let is_next = matches!(&self.next, Some(Line::Second(second)) if second.is_rest());
        if is_next { self.second() } else { Ok(None) }
    }

    /// The end of the phase, after its last second.
    ///
    /// # Errors
    /// When the next line is not the end of a phase.
    pub fn leave(&mut self) -> anyhow::Result<Finished> {
        match self.advance()? {
            Some(Line::Ended(ending)) => Ok(ending.into()),
            _ => bail!("line {}: the phase has no end: the file was cut off, run the shard again", self.at),
        }
    }

    /// The facts at the end of the file, after the last phase.
    ///
    /// # Errors
    /// When the next line does not hold these facts.
    pub fn close(&mut self) -> anyhow::Result<ShardEnd> {
        match self.advance()? {
            Some(Line::Closed(end)) => Ok(end),
            _ => bail!("line {}: the run has no end: the file was cut off, run the shard again", self.at),
        }
    }

    /// Reads one line ahead and returns the line before it.
    fn advance(&mut self) -> anyhow::Result<Option<Line>> {
        let mut text = String::new();
        self.lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut text)?;
        self.at += 1;
        ensure!(text.is_empty() || text.ends_with('\n'), "line {} is cut off: run the shard again", self.at);
        let next = (!text.is_empty()).then(|| serde_json::from_str(&text)).transpose();
        let next = next.with_context(|| format!("line {}: it is damaged, run the shard again", self.at))?;
        Ok(std::mem::replace(&mut self.next, next))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::interval::Tally;

    use super::*;

    fn second(from_ns: u64, due: u64) -> Second {
        let tallies = vec![Tally { due, ..Tally::default() }];
        Second {
            from_ns,
            to_ns: from_ns + 10,
            tallies,
            cpu_ns: vec![5],
            switches: Some(2),
            ..Second::default()
        }
    }

    fn write(dir: &Path) -> String {
        let mut recorder = Recorder::create(dir).unwrap();
        recorder.began(Began { key: Some(0), from_ns: 7, began_ms: 1000 }).unwrap();
        recorder.second(&second(0, 3)).unwrap();
        recorder.second(&second(10, 4)).unwrap();
        recorder.second(&Second { from_ns: 20, to_ns: 20, ..Second::default() }).unwrap();
        recorder.ended(&Finished { to_ns: 20, ended: Ended::Documents, ..Finished::default() }).unwrap();
        recorder.close(ShardEnd { server_cpu_ns: Some(9) }).unwrap();
        std::fs::read_to_string(dir.join(SHARD)).unwrap()
    }

    #[test]
    fn a_shard_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path());
        let mut reader = Reader::open(dir.path()).unwrap();
        assert_eq!(reader.phase(), Some(Began { key: Some(0), from_ns: 7, began_ms: 1000 }));
        reader.enter().unwrap();
        assert_eq!((reader.second().unwrap(), reader.rest().unwrap()), (Some(second(0, 3)), None));
        assert_eq!(reader.second().unwrap(), Some(second(10, 4)));
        assert_eq!(reader.rest().unwrap().map(|rest| rest.from_ns), Some(20));
        assert_eq!(reader.second().unwrap(), None);
        let finished = reader.leave().unwrap();
        assert_eq!((finished.to_ns, finished.ended), (20, Ended::Documents));
        assert_eq!((reader.phase(), reader.close().unwrap()), (None, ShardEnd { server_cpu_ns: Some(9) }));
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_is_not_taken_for_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let text = write(dir.path());
        let whole = |text: &str| -> anyhow::Result<ShardEnd> {
            let mut reader = Reader::over(text.as_bytes())?;
            reader.enter()?;
            while reader.second()?.is_some() {}
            reader.leave()?;
            reader.close()
        };
        assert!(whole(&text).is_ok());
        for cut in 0..text.len() {
            assert!(whole(&text[..cut]).is_err(), "cut at {cut}");
        }
        let later = text.replacen("\"format\":1", "\"format\":2", 1);
        let message = format!("{:#}", whole(&later).unwrap_err());
        assert!(message.contains("use the version that wrote it"), "{message}");
    }
}
