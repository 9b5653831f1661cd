//! Finishes a run: inspects the servers, reads back where possible, and judges.

use plimsoll_report::suite as report;

use super::{AFTER, BEFORE, Drive, LOG, RUN, Ran, Turn, keep};
use crate::suite::host::When;
use crate::suite::judge::{Came, judge};
use crate::suite::kind::{Ended, Reached};
use plimsoll_run::reexec::last_words;

impl Drive {
    /// What is there after, and what the run is worth.
    pub(super) fn close(&self, turn: &Turn<'_>, ran: &Ran) -> Came {
        let ended = turn.test.kind.ended(&turn.path.join(RUN));
        let last_words = last_words(&turn.path.join(LOG));
        let came = judge(&ran.over, ended.clone(), turn.test.timeout, self.settings, last_words);
        let came = came.with_server_cpu(ran.server_cpu_ns);
        if let Err(error) = self.look_after(turn) {
            self.say([format!("  after     could not be looked at: {error:#}")]);
        }
        let (came, intact) = self.read_back(turn, came, ended.as_ref());
        let ended = ended.map(|ended| Ended { intact: ended.intact && intact, ..ended });
        self.say(turn.footing.tidy(turn.test, ended.as_ref()));
        came
    }

    /// Looks at what is there after, or takes what the run itself saw.
    fn look_after(&self, turn: &Turn<'_>) -> anyhow::Result<()> {
        let after = if turn.footing.is_empty() {
            let Some((before, after)) = turn.test.kind.states(&turn.path.join(RUN)) else { return Ok(()) };
            keep(turn.path, BEFORE, &before)?;
            self.say(report::before(&before));
            after
        } else {
            turn.footing.look(When::After)?
        };
        keep(turn.path, AFTER, &after)?;
        self.say(report::after(&after));
        Ok(())
    }

    /// Holds what was written against what was to be written, where that can be done; and whether nothing speaks against it.
    fn read_back(&self, turn: &Turn<'_>, came: Came, ended: Option<&Ended>) -> (Came, bool) {
        let footing = &turn.footing;
        let total = came.measured.as_ref().map_or(0, |measured| measured.total);
        let reached = Reached { server: turn.server(), brokers: footing.address(turn.test), total };
        let proven = ended.filter(|ended| ended.intact);
        match proven.and_then(|_| turn.test.kind.read_back(&turn.test.row, &reached)) {
            None => (came, true),
            Some(Ok(found)) => {
                self.say([report::read_back(found.read, found.lost, found.reason.as_deref())]);
                let intact = found.reason.is_none();
                (came.with_read_back(found), intact)
            }
            Some(Err(error)) => {
                let reason = Some(format!("it could not be read back: {error:#}"));
                (Came { reason, ..came }, false)
            }
        }
    }
}
