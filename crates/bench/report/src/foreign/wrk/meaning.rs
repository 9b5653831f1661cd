//! Decides the meaning of figures of wrk or wrk2.

use super::{Printed, Section};
use crate::foreign::value::{Foreign, Form, Metric, Of, Operation, Since, Times, Tool, Unit, Values};

/// wrk2 says that it calibrates in the first ten seconds; a shorter test may be either's.
const CALIBRATION_S: f64 = 11.0;

impl Printed {
    /// Which tool it was, and from when it counts.
    fn origin(&self) -> (Tool, Since) {
        let seconds = self.requests.map_or(0.0, |(_, seconds, _)| seconds);
        match self.section {
            Section::Recorded | Section::Uncorrected => (Tool::Wrk2, Since::Due),
            _ if self.calibrated => (Tool::Wrk2, Since::Due),
            Section::None if seconds < CALIBRATION_S => (Tool::Wrk, Since::Unknown),
            _ => (Tool::Wrk, Since::Sent),
        }
    }

    /// The result.
    pub(super) fn into_foreign(self) -> Foreign {
        let (tool, since) = self.origin();
        let mut foreign = Foreign::new(tool, Form::Text);
        foreign.notes = self.notes(tool, since);
        foreign.title = self.title;
        foreign.duration_s = self.requests.map(|(_, seconds, _)| seconds);
        let mut times = vec![Times { since, of: Of::All, ns: self.main }];
        times.extend(self.uncorrected.map(|ns| Times { since: Since::Sent, of: Of::All, ns }));
        if tool == Tool::Wrk
            && let Some((count, ..)) = self.requests
        {
            times.iter_mut().for_each(|times| times.ns.count = Some(count));
        }
        foreign.operations = vec![Operation {
            name: "http requests".to_owned(),
            count: self.requests.map(|(count, ..)| count),
            rate_per_s: self.rate_per_s,
            failed: Some(self.failed),
            errors: self.errors.into_iter().filter(|(_, count)| *count > 0).collect(),
            times,
        }];
        let counter = |(_, _, bytes)| counter("bytes read", Unit::Bytes, bytes, self.transfer);
        foreign.metrics.extend(self.requests.map(counter));
        if let Some((threads, connections)) = self.connections {
            foreign.metrics.extend([gauge("threads", threads), gauge("connections", connections)]);
        }
        foreign
    }

    fn notes(&self, tool: Tool, since: Since) -> Vec<String> {
        let mut notes = Vec::new();
        if since == Since::Unknown {
            notes.push(
                "without --latency, and in under 11 s, wrk2 prints what wrk prints: if it was wrk, the times count from \
                 sending"
                    .to_owned(),
            );
        }
        if self.failed > 0 {
            notes.push(
                "the latencies and the rate include answers with a status outside 200 to 399".to_owned(),
            );
        }
        if self.errors.iter().any(|(class, count)| class == "timeout" && *count > 0) {
            notes.push("requests that were never answered are in no latency: see the time-outs".to_owned());
        }
        if tool == Tool::Wrk2 {
            notes.push("the first ten seconds, wrk2's calibration, are not in the latencies".to_owned());
        }
        notes
    }
}

fn counter(name: &str, unit: Unit, count: f64, rate_per_s: Option<f64>) -> Metric {
    Metric { name: name.to_owned(), unit, values: Values::Counter { count, rate_per_s } }
}

fn gauge(name: &str, value: f64) -> Metric {
    Metric { name: name.to_owned(), unit: Unit::Plain, values: Values::Gauge { value, min: None, max: None } }
}
