//! Judges a run by its exit status and its results.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use anyhow::Error;
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_measure::suite::{Outcome, Row};
use plimsoll_run::exit::{Exit, Failure};

use super::kind::{Ended, ReadBack};
use super::schedule::Settings;
use crate::child;
use crate::watch::Cause;

/// The longest reason, in characters.
const REASON_MAX: usize = 400;
/// The unit of pipelines: their runs do not measure the CPU time of their servers.
const EVENTS: &str = "events";

/// The result of a run that sent no load. It starts and ends now.
fn now(outcome: Outcome, exit: Exit, reason: &str) -> Row {
    let now_ms = clock::wall_ms();
    let (from_ms, to_ms, reason) = (now_ms, now_ms, Some(short(reason)));
    Row { outcome, exit: exit.code(), reason, from_ms, to_ms, ..Row::default() }
}

/// The result of a run that the user stopped before its load.
pub fn stopped() -> Row {
    now(Outcome::Interrupted, Exit::Interrupted, "before its load began")
}

/// The result of a run whose processes could not be started.
pub fn failed(error: &Error) -> Row {
    now(Outcome::Failed, Exit::Failed, &format!("{error:#}"))
}

/// The result of a run that was not started; `is_over` is whether the user asked to stop.
pub fn refused(failure: &Failure, is_over: bool) -> Row {
    if is_over { stopped() } else { now(Outcome::Refused, failure.exit, &format!("{:#}", failure.error)) }
}

/// Adds the CPU time of the servers, if the run itself could not measure it.
pub fn with_server_cpu(mut row: Row, cpu_ns: u64) -> Row {
    if let Some(measured) = row.measured.as_mut().filter(|it| it.unit == EVENTS && it.total > 0) {
        let us = (cpu_ns > 0).then(|| cpu_ns as f64 / 1e3 / measured.total as f64);
        measured.server_cpu_us = measured.server_cpu_us.or(us);
    }
    row
}

/// Adds the result of reading back the destination.
pub fn with_read_back(mut row: Row, found: ReadBack) -> Row {
    if let Some(measured) = &mut row.measured {
        measured.lost = Some(found.lost);
    }
    if let Some(reason) = found.reason {
        (row.outcome, row.exit) = (Outcome::Failed, Exit::Integrity.code());
        row.reason = Some(short(&reason));
    }
    row
}

/// The result of a run whose process ended.
pub fn judge(
    over: &child::Ended,
    ended: Option<Ended>,
    timeout: Span,
    settings: Settings,
    last_words: Option<String>,
) -> Row {
    let (outcome, exit, reason) = match over.cause {
        Some(Cause::Asked) => (Outcome::Interrupted, Exit::Interrupted, None),
        Some(cause) => (Outcome::Hung, Exit::Server, Some(ended_for(cause, timeout, settings))),
        None => by_itself(over, ended.as_ref(), last_words),
    };
    Row {
        outcome,
        exit: exit.code(),
        measured: ended.and_then(|ended| ended.measured),
        reason: reason.as_deref().map(short),
        from_ms: over.from_ms,
        to_ms: over.to_ms,
        ..Row::default()
    }
}

/// The result of a run that was not asked to end.
fn by_itself(
    over: &child::Ended,
    ended: Option<&Ended>,
    last_words: Option<String>,
) -> (Outcome, Exit, Option<String>) {
    let (status, exit) = (over.status, over.code().and_then(Exit::of));
    let Some(ended) = ended else {
        let exit = exit.filter(|exit| *exit != Exit::Held).unwrap_or(Exit::Failed);
        let why = match status.signal() {
            Some(_) => abrupt(status, last_words),
            None => last_words.unwrap_or_else(|| "it ended without a result or a message".to_owned()),
        };
        let outcome = if exit == Exit::Interrupted { Outcome::Interrupted } else { Outcome::Failed };
        return (outcome, exit, Some(why));
    };
    let reasons = (!ended.reasons.is_empty()).then(|| ended.reasons.join("; "));
    match exit {
        Some(Exit::Held) => (Outcome::Completed, Exit::Held, reasons),
        Some(Exit::Interrupted) => (Outcome::Interrupted, Exit::Interrupted, reasons),
        Some(exit) => (Outcome::Failed, exit, reasons),
        None => (Outcome::Failed, Exit::Failed, Some(abrupt(status, last_words))),
    }
}

/// The reason for a process that ended without an exit code of Plimsoll: a signal or a panic ended it.
fn abrupt(status: ExitStatus, last_words: Option<String>) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("its process was killed by signal {signal}"),
        (None, code) => format!(
            "its process ended with {}, which is a bug in Plimsoll: please report it",
            code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"))
        ),
    };
    last_words.map_or_else(|| how.clone(), |last| format!("{how}: {last}"))
}

fn ended_for(cause: Cause, timeout: Span, settings: Settings) -> String {
    let idle = Span::from_ns(settings.watch.as_ns() * u64::from(settings.hung_after));
    match cause {
        Cause::Hung => format!("no progress for {idle}, so it was ended"),
        Cause::Timeout => format!("it took longer than its timeout of {timeout}, and was ended"),
        Cause::Asked => "the user asked to stop".to_owned(),
    }
}

/// The cause of a run's early end, in a few words.
pub const fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::Hung => "no progress",
        Cause::Timeout => "it timed out",
        Cause::Asked => "you asked to stop",
    }
}

/// A text on one line, with limited length.
fn short(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= REASON_MAX {
        return line;
    }
    line.chars().take(REASON_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::suite::Measured;

    use super::super::schedule::Retry;
    use super::*;

    const SETTINGS: Settings = Settings {
        watch: Span::from_secs(10),
        hung_after: 3,
        retry: Retry::No,
        console: &plimsoll_run::console::Silent,
    };

    fn judged(code: i32, cause: Option<Cause>, ended: Option<Ended>) -> Row {
        let over = child::Ended { from_ms: 5, to_ms: 9, status: ExitStatus::from_raw(code << 8), cause };
        judge(&over, ended, Span::from_secs(60), SETTINGS, Some("the  last\nwords".to_owned()))
    }

    #[test]
    fn the_end_of_a_process_decides_the_result_of_its_run() {
        let whole = || Some(Ended { reasons: vec!["because".into()], ..Ended::default() });
        for (code, cause, ended, outcome, exit, reason) in [
            (0, None, Some(Ended::default()), Outcome::Completed, Exit::Held, None),
            (0, None, whole(), Outcome::Completed, Exit::Held, Some("because")),
            (99, None, whole(), Outcome::Failed, Exit::Expectation, Some("because")),
            (4, None, whole(), Outcome::Failed, Exit::Integrity, Some("because")),
            (2, None, None, Outcome::Failed, Exit::Usage, Some("the last words")),
            (0, None, None, Outcome::Failed, Exit::Failed, Some("the last words")),
            (
                101,
                None,
                whole(),
                Outcome::Failed,
                Exit::Failed,
                Some(
                    "its process ended with exit code 101, which is a bug in Plimsoll: please report it: the last words",
                ),
            ),
            (130, None, whole(), Outcome::Interrupted, Exit::Interrupted, Some("because")),
            (130, Some(Cause::Asked), whole(), Outcome::Interrupted, Exit::Interrupted, None),
            (
                130,
                Some(Cause::Hung),
                None,
                Outcome::Hung,
                Exit::Server,
                Some("no progress for 30s, so it was ended"),
            ),
            (
                0,
                Some(Cause::Timeout),
                whole(),
                Outcome::Hung,
                Exit::Server,
                Some("it took longer than its timeout of 1m, and was ended"),
            ),
        ] {
            let row = judged(code, cause, ended);
            let result = (row.outcome, row.exit, row.reason.as_deref());
            assert_eq!(result, (outcome, exit.code(), reason), "{code} {cause:?}");
            assert_eq!((row.from_ms, row.to_ms), (5, 9));
        }
    }

    #[test]
    fn missing_documents_fail_a_completed_run() {
        let measured = Measured { unit: EVENTS.into(), total: 4, ..Measured::default() };
        let whole = || {
            let ended = Ended { measured: Some(measured.clone()), ..Ended::default() };
            with_server_cpu(judged(0, None, Some(ended)), 8_000)
        };
        let good = with_read_back(whole(), ReadBack { read: 4, ..ReadBack::default() });
        let it = good.measured.unwrap();
        assert_eq!((good.outcome, it.lost, it.server_cpu_us), (Outcome::Completed, Some(0), Some(2.0)));
        let bad = ReadBack { read: 3, lost: 1, reason: Some("1 missing".into()) };
        let bad = with_read_back(whole(), bad);
        assert_eq!((bad.outcome, bad.exit), (Outcome::Failed, Exit::Integrity.code()));
        assert_eq!((bad.reason.as_deref(), bad.measured.unwrap().lost), (Some("1 missing"), Some(1)));
    }

    #[test]
    fn a_signal_kills_a_process() {
        let killed = child::Ended { from_ms: 5, to_ms: 9, status: ExitStatus::from_raw(9), cause: None };
        for (ended, last, reason) in [
            (None, None, "its process was killed by signal 9"),
            (Some(Ended::default()), Some("a word"), "its process was killed by signal 9: a word"),
        ] {
            let row = judge(&killed, ended, Span::from_secs(60), SETTINGS, last.map(str::to_owned));
            assert_eq!((row.outcome, row.reason.as_deref()), (Outcome::Failed, Some(reason)));
        }
    }

    #[test]
    fn a_reason_is_one_line_of_limited_length() {
        assert_eq!(short("a\n b"), "a b");
        assert_eq!(short(&"x".repeat(1000)).chars().count(), REASON_MAX);
    }
}
