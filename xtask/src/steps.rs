//! Runs steps in order, and records their names and durations.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The finished steps.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    failed: bool,
}

impl Steps {
    /// Runs the next step; its name is part of the error.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        eprintln!("\n== {name}");
        let start = now();
        let result = step();
        self.done.push(Step { name, took: now() - start, failed: result.is_err() });
        result.with_context(|| format!("step {name}"))
    }
}

#[expect(clippy::disallowed_methods, reason = "xtask does not know `measure`, so it reads the clock itself")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { name, took, failed } in &self.done {
            let verdict = if *failed { "FAILED" } else { "ok" };
            writeln!(f, "{name:<8}{:>8.1} s  {verdict}", took.as_secs_f64())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn a_step_that_fails_is_named_in_the_error_and_in_the_list() {
        let mut steps = Steps::default();
        steps.run("one", || Ok(())).unwrap();
        let error = steps.run("two", || bail!("it is raining")).unwrap_err();
        assert_eq!(format!("{error:#}"), "step two: it is raining");
        let list = steps.to_string();
        let lines: Vec<&str> = list.lines().collect();
        assert!(lines[0].starts_with("one ") && lines[0].ends_with("ok"), "{list}");
        assert!(lines[1].starts_with("two ") && lines[1].ends_with("FAILED"), "{list}");
    }
}
