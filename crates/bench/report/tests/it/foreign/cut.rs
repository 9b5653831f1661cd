//! Checks files that are cut off, damaged, or no results at all.

use plimsoll_report::foreign::{read, summary};
use plimsoll_report::text::{Screen, Style};
use proptest::prelude::*;

use super::{FILES, bytes};

/// Reads a file and renders the result, to find panics.
fn try_all(bytes: &[u8]) {
    if let Ok(foreign) = read(bytes) {
        let text = summary(&foreign, Screen { style: Style::Colour, ..Screen::PIPE });
        assert!(text.lines().all(|line| !line.chars().any(|c| c.is_control() && c != '\u{1b}')));
        serde_json::to_string(&foreign).unwrap();
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused_with_its_line() {
    for name in FILES.iter().filter(|name| name.ends_with(".json") || name.starts_with("wrk")) {
        let whole = bytes(name);
        let end = whole.trim_ascii_end().len();
        for at in (1..end).step_by(end / 97 + 1).chain([end - 1]) {
            let error = read(&whole[..at]).err().unwrap_or_else(|| panic!("{name} cut at {at} was read"));
            let text = error.to_string();
            assert!(text.starts_with("line ") || at < 60, "{name} cut at {at}: {text}");
        }
    }
}

#[test]
fn a_packed_file_that_is_cut_off_anywhere_is_refused() {
    let whole = bytes("k6-samples.json.gz");
    for at in (1..whole.len()).step_by(211) {
        assert!(read(&whole[..at]).is_err(), "cut at {at}");
    }
}

proptest! {
    #[test]
    fn no_bytes_at_all_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        try_all(&bytes);
    }

    #[test]
    fn no_words_after_a_known_beginning_make_a_reader_panic(
        which in 0..BEGINNINGS.len(),
        text in "([\\[\\]{}:,\"#%. \n]|[0-9]{1,25}|-|e|us|ms|nan|Latency|requests in|read|Percentile|thresholds|p\\(95\\)){0,200}",
    ) {
        try_all(format!("{}{text}", BEGINNINGS[which]).as_bytes());
    }

    #[test]
    fn no_damage_to_a_file_makes_a_reader_panic(
        which in 0..FILES.len(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = bytes(FILES[which]);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        try_all(&bytes);
    }
}

const BEGINNINGS: [&str; 8] = [
    "Running 30s test @ http://x/\n",
    "Running 30s test @ http://x/\n  Latency Distribution (HdrHistogram - Recorded Latency)\n",
    "[OVERALL], RunTime(ms), 5\n[OVERALL], Throughput(ops/sec), 5\n[READ], ",
    "{\"type\":\"Metric\",\"data\":{\"type\":\"trend\",\"contains\":\"time\"},\"metric\":\"x\"}\n{\"metric\":\"x\",",
    "{\"metrics\":{\"a\":{\"values\":{",
    "{\"metrics\":{\"a\":{",
    "{\"results\":{\"metrics\":[",
    "{\"latencyPercentiles\":{},\"summary\":{",
];
