//! Recognises the tool and the form of a result.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::{Error, from_json};
use super::lines::{BYTE_ORDER_MARK, Lines};
use super::value::{Foreign, Since};
use super::{k6, oha, wrk, ycsb};

/// The bytes that suffice to recognise a form.
const HEAD_BYTES: u64 = 64 << 10;
/// The largest result that is held in memory as a whole, in bytes. Samples are read line by line instead.
const WHOLE_BYTES_MAX: u64 = 64 << 20;
/// The magic bytes of gzip.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Reads a result of another tool, compressed by gzip or not. Memory is bounded for a source of any length.
///
/// # Errors
/// If the result is unknown, truncated or damaged, with the number of the line.
pub fn read(source: impl BufRead) -> Result<Foreign, Error> {
    let (head, source) = peek(source)?;
    if head.starts_with(GZIP) {
        unpacked(BufReader::new(MultiGzDecoder::new(source)))
    } else {
        unpacked(source)
    }
}

fn unpacked(source: impl BufRead) -> Result<Foreign, Error> {
    let (head, source) = peek(source)?;
    let foreign = match recognise(&head)? {
        Kind::Samples => k6::samples(Lines::new(source)),
        Kind::Json => json(&whole(source)?),
        Kind::Wrk => wrk::read(Lines::new(limited(source))),
        Kind::Ycsb => ycsb::read(Lines::new(limited(source))),
    };
    foreign.map(with_caution)
}

/// Puts the note on comparable latencies first, where every renderer shows it.
fn with_caution(mut foreign: Foreign) -> Foreign {
    let times = foreign.operations.iter().flat_map(|it| &it.times);
    let mut since: Vec<_> = times.map(|times| times.since).collect();
    since.sort_unstable();
    since.dedup();
    let cautions = since.into_iter().filter_map(|since| match since {
        Since::Due => None,
        Since::Sent => Some(
            "times counted from sending lack the waiting while the service stalled: coordinated omission is \
             possible; compare them with Plimsoll's service time only, never with its response time or with wrk2's \
             corrected times",
        ),
        Since::Unknown => Some(
            "the file does not say from when some times count, from the due time or from sending: find out before \
             you compare them",
        ),
    });
    let cautions: Vec<_> = cautions.map(str::to_owned).collect();
    foreign.notes.splice(0..0, cautions);
    foreign
}

/// The first `HEAD_BYTES` bytes of a source, and a reader that still returns the whole source.
fn peek(mut source: impl BufRead) -> Result<(Vec<u8>, impl BufRead), Error> {
    let mut head = Vec::new();
    let read = Read::take(&mut source, HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|source| Error::Read { line: 1, source })?;
    let again = Cursor::new(head.clone()).chain(source);
    Ok((head, again))
}

fn limited(source: impl BufRead) -> impl BufRead {
    Read::take(source, WHOLE_BYTES_MAX)
}

fn whole(source: impl BufRead) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = Read::take(source, WHOLE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|source| Error::Read { line: line_feeds(&bytes) + 1, source })?;
    if bytes.len() as u64 > WHOLE_BYTES_MAX {
        let (line, remedy) = (line_feeds(&bytes) + 1, "this is not a summary of a load tool");
        return Err(Error::too_much(line, WHOLE_BYTES_MAX, "bytes of one JSON value", remedy));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Samples,
    Json,
    Wrk,
    Ycsb,
}

fn recognise(head: &[u8]) -> Result<Kind, Error> {
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head).trim_ascii_start();
    let Some(first) = text.first() else { return Err(Error::Empty) };
    if *first == b'{' {
        return Ok(if is_sample(text) { Kind::Samples } else { Kind::Json });
    }
    let mut lines = text.split(|byte| *byte == b'\n');
    let known = lines.find_map(|line| match line {
        run if wrk::begins(run) => Some(Kind::Wrk),
        section if ycsb::begins(section) => Some(Kind::Ycsb),
        _ => None,
    });
    known.ok_or_else(|| Error::Unknown { found: opening(text) })
}

/// Whether the text begins with a line of k6's samples: their first key is `type` or `metric`.
fn is_sample(text: &[u8]) -> bool {
    let inside = text[1..].trim_ascii_start();
    ["\"type\"", "\"metric\""].iter().any(|key| inside.starts_with(key.as_bytes()))
}

/// The first words, for a person to recognise the file by.
fn opening(text: &[u8]) -> String {
    const SHOWN: usize = 40;
    let first = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN)]).into_owned();
    let line: String = first.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
    let plain: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    format!("it begins with `{plain}`")
}

/// The keys that distinguish the forms of JSON.
#[derive(Deserialize)]
struct Shape {
    metrics: Option<BTreeMap<String, MetricShape>>,
    results: Option<IgnoredAny>,
    state: Option<IgnoredAny>,
    #[serde(rename = "latencyPercentiles")]
    latency_percentiles: Option<IgnoredAny>,
    format: Option<IgnoredAny>,
    conclusions: Option<IgnoredAny>,
    cells: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct MetricShape {
    values: Option<IgnoredAny>,
}

fn json(bytes: &[u8]) -> Result<Foreign, Error> {
    let shape: Shape = from_json(bytes)?;
    if shape.format.is_some() && (shape.conclusions.is_some() || shape.cells.is_some()) {
        return Err(Error::Own);
    }
    if shape.latency_percentiles.is_some() {
        return oha::read(bytes);
    }
    if shape.results.is_some() {
        return k6::machine(bytes);
    }
    match shape.metrics {
        Some(metrics) if shape.state.is_some() || metrics.values().any(|it| it.values.is_some()) => {
            k6::summary(bytes)
        }
        Some(_) => k6::legacy(bytes),
        None => Err(Error::Unknown { found: "a JSON object without `metrics` and `results`".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], error: &str) {
        let found = read(text).unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }

    #[test]
    fn an_unknown_file_is_described_by_its_beginning() {
        check(b"", "the file is empty");
        check(b" \n ", "the file is empty");
        check(b"# Title\n", "it begins with `# Title`: unknown format; supported are");
        check(b"\x1b[31mred", "it begins with `\u{fffd}[31mred`");
        check(b"[1]", "it begins with `[1]`");
        check(b"{}", "a JSON object without `metrics`");
        check(br#"{"format":1,"conclusions":[]}"#, "this file belongs to a run of Plimsoll");
    }

    #[test]
    fn json_that_is_cut_off_or_damaged_names_the_line() {
        check(b"{\n \"metrics\": {\n", "line 3: the file ends here, in the middle of a JSON value");
        check(b"{\n \"metrics\": }", "line 2: expected value at line 2 column 13: the file is damaged");
        check(b"{\"metrics\": {}}\n{}", "line 2: trailing characters");
    }

    #[test]
    fn a_truncated_archive_is_reported() {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(&b"{\"type\":\"Metric\"}\n".repeat(100)).unwrap();
        let packed = packer.finish().unwrap();
        check(&packed[..packed.len() / 2], "line 1: cannot read further: ");
    }
}
