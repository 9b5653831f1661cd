//! Shows the progress of the embedded server's installation.

use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_host::embedded::{Progress, Step};
use plimsoll_report::text::clipped;

use super::{say, width};

/// Seconds between two lines in a log. On a terminal, one line is rewritten.
const LOG_EVERY: u64 = 15;
/// The longest displayed name of a crate, in characters.
const NAME_LEN_MAX: usize = 28;

/// Shows the progress on stderr; `due` is the second of the next line in a log.
pub(super) fn show(progress: &Progress, due: &AtomicU64) {
    let (terminal, seconds) = (stderr().is_terminal(), progress.elapsed_ns / 1_000_000_000);
    if progress.step == Step::Installed {
        say(&format!("{}Installed the embedded server in {}.", clear(terminal), span(seconds)));
    } else if terminal {
        let line = clipped(&format!("  {}", line(progress)), width(stderr()));
        write!(stderr(), "{}{line}", clear(terminal)).unwrap_or_default();
    } else if seconds >= due.load(Ordering::Relaxed) {
        due.store(seconds - seconds % LOG_EVERY + LOG_EVERY, Ordering::Relaxed);
        say(&format!("  {}", line(progress)));
    }
}

/// Returns to the beginning of a terminal's line and clears it.
const fn clear(terminal: bool) -> &'static str {
    if terminal { "\r\x1b[K" } else { "" }
}

fn line(progress: &Progress) -> String {
    let elapsed = span(progress.elapsed_ns / 1_000_000_000);
    let step = match &progress.step {
        Step::Waiting => "waiting for another process that installs the server".to_owned(),
        Step::Fetching => "fetching the sources".to_owned(),
        Step::Compiling { done, total, name } => {
            let name: String = name.chars().take(NAME_LEN_MAX).collect();
            format!("compiled {done} of {total}, now {name}")
        }
        Step::Installed => "installed".to_owned(),
    };
    match progress.remaining_ns {
        Some(remaining_ns) => format!("{elapsed}, {} left: {step}", about(remaining_ns / 1_000_000_000)),
        None => format!("{elapsed}: {step}"),
    }
}

fn span(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

/// Rounds an estimate to minutes: it is not more precise.
fn about(seconds: u64) -> String {
    match seconds {
        0..60 => "less than 1 min".to_owned(),
        _ => format!("about {} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_elapsed_time_the_remaining_time_and_the_step() {
        let check = |elapsed_s: u64, remaining_s: Option<u64>, step: Step, expected: &str| {
            let remaining_ns = remaining_s.map(|seconds| seconds * 1_000_000_000);
            assert_eq!(
                line(&Progress { step, elapsed_ns: elapsed_s * 1_000_000_000, remaining_ns }),
                expected
            );
        };
        let compiling = Step::Compiling { done: 134, total: 290, name: "serde_json".to_owned() };
        check(2, None, Step::Fetching, "2 s: fetching the sources");
        let text = "1 min 05 s, about 4 min left: compiled 134 of 290, now serde_json";
        check(65, Some(230), compiling.clone(), text);
        check(
            300,
            Some(12),
            compiling,
            "5 min 00 s, less than 1 min left: compiled 134 of 290, now serde_json",
        );
    }
}
