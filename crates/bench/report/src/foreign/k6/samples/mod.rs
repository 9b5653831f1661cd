//! Reads every sample of a test from `k6 run --out json`: a line each, possibly many gigabytes.
//!
//! The file is read once, from its first line to its last, in bounded memory. Up to [`trend::RETAINED_MAX`] values are retained;
//! their percentiles are exactly those of k6. Metrics with more values are counted in histograms.

mod collect;
mod line;
mod requests;
mod seconds;
mod series;
mod trend;

use std::io::BufRead;

use collect::Collected;

use crate::foreign::error::{Error, MAKE_AGAIN};
use crate::foreign::lines::{self, Lines};
use crate::foreign::value::Foreign;

/// Reads every sample.
pub(in crate::foreign) fn samples(mut lines: Lines<impl BufRead>) -> Result<Foreign, Error> {
    let mut all = Collected::default();
    while let Some(line) = lines.next()? {
        if line.text.trim_ascii().is_empty() {
            continue;
        }
        let read: line::Line<'_> =
            serde_json::from_slice(line.text).map_err(|error| problem(&line, &error))?;
        all.take(line.number, read)?;
    }
    Ok(all.into_foreign(lines.read()))
}

/// The error of a line. Each line is a separate JSON text, so only the column matters.
fn problem(line: &lines::Line<'_>, error: &serde_json::Error) -> Error {
    if error.is_eof() && !line.ended {
        return Error::CutOff { line: line.number, what: "a sample", remedy: MAKE_AGAIN };
    }
    let message = error.to_string();
    let bare = message.rsplit_once(" at line ").map_or(message.as_str(), |(bare, _)| bare);
    Error::malformed(line.number, format!("column {}: {bare}", error.column()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::distribution::Source;
    use crate::foreign::value::{Of, Since};

    const METRIC: &str = r#"{"type":"Metric","data":{"name":"http_req_duration","type":"trend","contains":"time","thresholds":["p(95)<500","p(95)<2","max===4"],"submetrics":[{"name":"http_req_duration{expected_response:true}","suffix":"expected_response:true","tags":{"expected_response":"true"}}]},"metric":"http_req_duration"}"#;

    fn point(second: u32, ms: f64, name: &str, status: &str) -> String {
        let ok = status == "200";
        format!(
            r#"{{"metric":"http_req_duration","type":"Point","data":{{"time":"2026-03-22T16:36:{second:02}.5+01:00","value":{ms},"tags":{{"name":"{name}","url":"http://x/{name}","method":"GET","status":"{status}","expected_response":"{ok}"}}}}}}"#
        )
    }

    fn read(text: &str) -> Result<Foreign, Error> {
        samples(Lines::new(text.as_bytes()))
    }

    #[test]
    fn percentiles_are_interpolated_as_k6_does_it() {
        let points: Vec<_> = [1.0, 2.0, 3.0, 4.0].iter().map(|ms| point(1, *ms, "a", "200")).collect();
        let found = read(&[METRIC.to_owned(), points.join("\n")].join("\n")).unwrap();
        let times = &found.operations[0].times[0];
        assert_eq!((times.since, times.of, times.ns.source), (Since::Sent, Of::All, Source::Samples));
        assert_eq!((times.ns.at(50.0), times.ns.at(90.0)), (Some(2.5e6), Some(3.7e6)));
        assert_eq!((times.ns.count, times.ns.mean, times.ns.max), (Some(4), Some(2.5e6), Some(4e6)));
        let held: Vec<_> = found.thresholds.iter().map(|it| (it.expression.as_str(), it.held)).collect();
        assert_eq!(held, [("p(95)<500", Some(true)), ("p(95)<2", Some(false)), ("max===4", Some(true))]);
    }

    #[test]
    fn requests_are_grouped_by_name_and_by_the_second_of_their_end() {
        let points = [point(1, 1.0, "a", "200"), point(3, 9.0, "b", "500"), point(3, 2.0, "a", "200")];
        let found = read(&[METRIC.to_owned(), points.join("\n")].join("\n")).unwrap();
        let names: Vec<_> = found.operations.iter().map(|it| (it.name.as_str(), it.count)).collect();
        let total = "http requests";
        let suffix = "http requests {expected_response:true}";
        assert_eq!(names, [(total, Some(3)), ("a", Some(2)), ("b", Some(1)), (suffix, Some(2))]);
        let seconds: Vec<_> =
            found.seconds.iter().map(|it| (it.from_s, it.operations[total].count)).collect();
        assert_eq!(seconds, [(0, 1), (2, 2)]);
        assert_eq!(found.seconds[1].operations["b"].max_ns, 9_000_000);
        assert_eq!(found.started.as_deref(), Some("2026-03-22T15:36:01.499Z"));
    }

    #[track_caller]
    fn check(text: &str, error: &str) {
        let found = read(text).unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let whole = point(1, 1.0, "a", "200");
        check(
            &format!("{METRIC}\n{}", &whole[..50]),
            "line 2: the file ends here, in the middle of a sample",
        );
        check(&format!("{METRIC}\n{}\n", &whole[..50]), "line 2: column 50: EOF while parsing");
        check(&format!("{METRIC}\n{}", whole.replace("1,\"tags\"", "\"x\",\"tags\"")), "line 2: column ");
        check(&whole, "line 1: a sample of `http_req_duration`, which no earlier line defines");
        check(
            &format!("{METRIC}\n{}", whole.replace("-03-", "-13-")),
            "line 2: `2026-13-22T16:36:01.5+01:00` is not",
        );
        check(&METRIC.replace("\"type\":\"Metric\"", "\"type\":\"Other\""), "line 1: unknown type `Other`");
    }
}
