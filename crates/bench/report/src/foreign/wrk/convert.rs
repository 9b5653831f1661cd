//! Interprets the figures of wrk or wrk2.

use super::{Printed, Section};
use crate::foreign::value::{Foreign, Form, Metric, Of, Operation, Since, Times, Tool, Unit};

/// wrk2 prints its calibration after ten seconds. A shorter test may come from either tool.
const CALIBRATION_S: f64 = 11.0;

impl Printed {
    /// The tool, and the moment from which it counts.
    fn origin(&self) -> (Tool, Since) {
        let seconds = self.requests.map_or(0.0, |(_, seconds, _)| seconds);
        match self.section {
            Section::Recorded | Section::Uncorrected => (Tool::Wrk2, Since::Due),
            _ if self.calibrated => (Tool::Wrk2, Since::Due),
            Section::None if seconds < CALIBRATION_S => (Tool::Wrk, Since::Unknown),
            _ => (Tool::Wrk, Since::Sent),
        }
    }

    /// Converts what was read.
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
        let read = |(_, _, bytes)| Metric::counter("bytes read", Unit::Bytes, bytes, self.transfer);
        foreign.metrics.extend(self.requests.map(read));
        if let Some((threads, connections)) = self.connections {
            let threads = Metric::gauge("threads", threads);
            foreign.metrics.extend([threads, Metric::gauge("connections", connections)]);
        }
        foreign
    }

    fn notes(&self, tool: Tool, since: Since) -> Vec<String> {
        let timed_out = self.errors.iter().any(|(class, count)| class == "timeout" && *count > 0);
        let notes = [
            (since == Since::Unknown).then_some(
                "a test under 11 s without --latency looks the same from wrk and wrk2: if wrk made it, the times \
                 count from sending",
            ),
            (self.failed > 0).then_some("the latencies and the rate include answers with a status outside 200 to 399"),
            timed_out.then_some("the latencies omit requests that timed out: see the errors"),
            (tool == Tool::Wrk2)
                .then_some("the first ten seconds, wrk2's calibration, are not in the latencies"),
        ];
        notes.into_iter().flatten().map(str::to_owned).collect()
    }
}
