//! Draws a progress bar.

use crate::units::{counted, duration, exact};

/// Characters of a bar.
const CELLS: usize = 20;

/// Progress by count: `load   ██████░░░░ 61 %   610,000 of 1,000,000 documents`.
pub(super) fn count(what: &str, done: u64, all: u64, thing: &str) -> String {
    let share = done as f64 / all.max(1) as f64;
    format!("{what}   {}   {} of {}", bar(share), exact(done), counted(all, thing))
}

/// Progress by time in seconds.
pub(super) fn time(what: &str, done_s: f64, all_s: f64) -> String {
    let share = if all_s > 0.0 { done_s / all_s } else { 1.0 };
    format!("{what}   {}   {} of {}", bar(share), duration(done_s), duration(all_s))
}

fn bar(share: f64) -> String {
    let share = share.clamp(0.0, 1.0);
    let full = (share * CELLS as f64) as usize;
    format!("{}{} {:.0} %", "█".repeat(full), "░".repeat(CELLS - full), (share * 100.0).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_only_when_everything_is_done() {
        assert_eq!(bar(0.999), "███████████████████░ 99 %");
        assert_eq!(bar(1.2), "████████████████████ 100 %");
        assert_eq!(count("load", 0, 0, "document"), "load   ░░░░░░░░░░░░░░░░░░░░ 0 %   0 of 0 documents");
    }
}
