//! Judges a run by its exit status and its results.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use anyhow::Error;
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_measure::suite::{Measured, Outcome};

use super::child::Over;
use super::kind::{Ended, ReadBack};
use super::schedule::Settings;
use super::watch::Cause;
use plimsoll_run::exit::{Exit, Failure};

/// The longest reason, in characters.
const REASON_MAX: usize = 400;
/// What pipelines count: they know nothing of their servers' CPU.
const EVENTS: &str = "events";

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Came {
    /// How it ended.
    pub outcome: Outcome,
    /// The exit code that it deserves.
    pub exit: Exit,
    /// What it measured.
    pub measured: Option<Measured>,
    /// Why it was not completed, or what else speaks against it.
    pub reason: Option<String>,
    /// When its load began and ended, in milliseconds since 1970.
    pub from_ms: u64,
    /// Likewise.
    pub to_ms: u64,
}

impl Came {
    fn now(outcome: Outcome, exit: Exit, reason: Option<&str>) -> Self {
        let now_ms = clock::wall_ms();
        Self { outcome, exit, measured: None, reason: reason.map(short), from_ms: now_ms, to_ms: now_ms }
    }

    /// Somebody wanted to stop before its load began.
    pub fn stopped() -> Self {
        Self::now(Outcome::Interrupted, Exit::Interrupted, Some("before its load began"))
    }

    /// The same with what the server and the brokers used, where the run could not see that itself.
    pub fn with_server_cpu(mut self, cpu_ns: u64) -> Self {
        if let Some(measured) = self.measured.as_mut().filter(|it| it.unit == EVENTS && it.total > 0) {
            let us = (cpu_ns > 0).then(|| cpu_ns as f64 / 1e3 / measured.total as f64);
            measured.server_cpu_us = measured.server_cpu_us.or(us);
        }
        self
    }

    /// The same with what was found where it wrote to.
    pub fn with_read_back(mut self, found: ReadBack) -> Self {
        if let Some(measured) = &mut self.measured {
            measured.lost = Some(found.lost);
        }
        if let Some(reason) = found.reason {
            (self.outcome, self.exit) = (Outcome::Failed, Exit::Integrity);
            self.reason = Some(short(&reason));
        }
        self
    }

    /// It could not even be tried.
    pub fn unmade(error: &Error) -> Self {
        Self::now(Outcome::Failed, Exit::Failed, Some(&format!("{error:#}")))
    }
}

/// A run that was not begun.
pub fn refused(failure: &Failure, asked: bool) -> Came {
    if asked {
        return Came::stopped();
    }
    Came::now(Outcome::Refused, failure.exit, Some(&format!("{:#}", failure.error)))
}

/// What a run whose process is over came to.
pub fn judge(
    over: &Over,
    ended: Option<Ended>,
    timeout: Span,
    settings: Settings,
    last_words: Option<String>,
) -> Came {
    let (outcome, exit, reason) = match over.cause {
        Some(Cause::Asked) => (Outcome::Interrupted, Exit::Interrupted, None),
        Some(cause) => (Outcome::Hung, Exit::Server, Some(ended_for(cause, timeout, settings))),
        None => by_itself(over.status, ended.as_ref(), last_words),
    };
    Came {
        outcome,
        exit,
        measured: ended.and_then(|ended| ended.measured),
        reason: reason.as_deref().map(short),
        from_ms: over.from_ms,
        to_ms: over.to_ms,
    }
}

/// How a run that ended without a word from us is to be taken.
fn by_itself(
    status: ExitStatus,
    ended: Option<&Ended>,
    last_words: Option<String>,
) -> (Outcome, Exit, Option<String>) {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let exit = code.and_then(Exit::of);
    let Some(ended) = ended else {
        let exit = exit.filter(|exit| *exit != Exit::Held).unwrap_or(Exit::Failed);
        let why = match status.signal() {
            Some(_) => abrupt(status, last_words),
            None => last_words.unwrap_or_else(|| "it ended without a result and without a word".to_owned()),
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

/// The end of a process that has no exit code of ours: a signal killed it, or it panicked.
fn abrupt(status: ExitStatus, last_words: Option<String>) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("its process was killed by signal {signal}"),
        (None, code) => format!(
            "its process ended with {}, which is a fault of Plimsoll: please report it",
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
        Cause::Asked => "somebody asked to stop".to_owned(),
    }
}

/// Why a run is ended, in a few words.
pub const fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::Hung => "no progress",
        Cause::Timeout => "its time is over",
        Cause::Asked => "you asked to stop",
    }
}

/// On one line, and not too long.
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
    use super::super::schedule::Retry;
    use super::*;

    const SETTINGS: Settings = Settings {
        watch: Span::from_secs(10),
        hung_after: 3,
        retry: Retry::No,
        console: &plimsoll_run::console::Silent,
    };

    fn came(code: i32, cause: Option<Cause>, ended: Option<Ended>) -> Came {
        let over = Over { from_ms: 5, to_ms: 9, status: ExitStatus::from_raw(code << 8), cause };
        judge(&over, ended, Span::from_secs(60), SETTINGS, Some("the  last\nwords".to_owned()))
    }

    #[test]
    fn how_a_process_ended_says_what_came_of_its_run() {
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
                    "its process ended with exit code 101, which is a fault of Plimsoll: please report it: the last words",
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
            let came = came(code, cause, ended);
            let told = (came.outcome, came.exit, came.reason.as_deref());
            assert_eq!(told, (outcome, exit, reason), "{code} {cause:?}");
            assert_eq!((came.from_ms, came.to_ms), (5, 9));
        }
    }

    #[test]
    fn what_is_not_where_it_was_to_go_fails_a_run_that_was_completed() {
        let measured = Measured { unit: EVENTS.into(), total: 4, ..Measured::default() };
        let whole = || {
            let ended = Ended { measured: Some(measured.clone()), ..Ended::default() };
            came(0, None, Some(ended)).with_server_cpu(8_000)
        };
        let good = whole().with_read_back(ReadBack { read: 4, ..ReadBack::default() });
        let it = good.measured.unwrap();
        assert_eq!((good.outcome, it.lost, it.server_cpu_us), (Outcome::Completed, Some(0), Some(2.0)));
        let bad = ReadBack { read: 3, lost: 1, reason: Some("1 missing".into()) };
        let bad = whole().with_read_back(bad);
        assert_eq!((bad.outcome, bad.exit), (Outcome::Failed, Exit::Integrity));
        assert_eq!((bad.reason.as_deref(), bad.measured.unwrap().lost), (Some("1 missing"), Some(1)));
    }

    #[test]
    fn only_what_a_signal_ended_was_killed() {
        let killed = Over { from_ms: 5, to_ms: 9, status: ExitStatus::from_raw(9), cause: None };
        for (ended, last, reason) in [
            (None, None, "its process was killed by signal 9"),
            (Some(Ended::default()), Some("a word"), "its process was killed by signal 9: a word"),
        ] {
            let came = judge(&killed, ended, Span::from_secs(60), SETTINGS, last.map(str::to_owned));
            assert_eq!((came.outcome, came.reason.as_deref()), (Outcome::Failed, Some(reason)));
        }
    }

    #[test]
    fn a_reason_is_one_line_and_not_too_long() {
        assert_eq!(short("a\n b"), "a b");
        assert_eq!(short(&"x".repeat(1000)).chars().count(), REASON_MAX);
    }
}
