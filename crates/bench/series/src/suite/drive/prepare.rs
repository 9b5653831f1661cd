//! Prepares a run: fills its topic and sends the warm-up.

use std::path::Path;

use plimsoll_deployment::Namespace;
use plimsoll_mongo::scenario::Existing;

use super::{Drive, Settings, Turn, WARM_UP};
use crate::suite::child::Over;
use crate::suite::collection_policy;
use crate::suite::judge::{Came, judge};
use plimsoll_run::exit::{Deserves, Exit, Failure};
use plimsoll_run::reexec::last_words;
use plimsoll_run::run_dir::write_private;

/// Where a topic is filled, by which pipeline, and what that said.
pub(super) const FILL: &str = "fill";
const FILL_FILE: &str = "fill.yaml";
const FILL_LOG: &str = "fill.log";
const WARM_UP_LOG: &str = "warm-up.log";

impl Drive {
    /// Fills the topic that is read, so that everything that is to be read is there before anything reads. What came of the
    /// run, if this already decides it.
    pub(super) fn fill(&self, turn: &Turn<'_>) -> Result<Option<Came>, Failure> {
        let (Some(text), Some(fill)) = (turn.footing.filling()?, turn.test.row.fill) else { return Ok(None) };
        let (file, log) = (turn.path.join(FILL_FILE), turn.path.join(FILL_LOG));
        write_private(&file, &text)?;
        let words = ["pipeline", "run", &*file.to_string_lossy()].map(str::to_owned);
        let over = self.run(turn, &words, None, FILL, &log)?;
        let ended = turn.test.kind.ended(&turn.path.join(FILL));
        let total = ended.as_ref().and_then(|ended| ended.measured.as_ref()).map_or(0, |it| it.total);
        let whole = ended.is_some_and(|ended| ended.intact) && total == fill.events;
        Ok(cut_short(turn, &over, FILL, whole, &log, self.settings))
    }

    /// Sends the same load for a short time, and drops what it wrote. What came of the run, if this already decides it.
    pub(super) fn warm_up(&self, turn: &Turn<'_>) -> Result<Option<Came>, Failure> {
        let job = &turn.test.job;
        let Some((words, namespace)) = job.warm_up_of(turn.number) else { return Ok(None) };
        self.make_room(turn, namespace.as_ref())?;
        let log = turn.path.join(WARM_UP_LOG);
        let over = self.run(turn, &words, turn.server(), WARM_UP, &log)?;
        // It was empty before, so whatever became of the warm-up, what is in it now is nobody's.
        let dropped = self.drop_room(turn, namespace.as_ref()).deserves(Exit::Server);
        let whole = turn.test.kind.ended(&turn.path.join(WARM_UP)).is_some();
        match (cut_short(turn, &over, WARM_UP, whole, &log, self.settings), dropped) {
            (Some(came), dropped) => {
                self.say(dropped.err().map(|failure| format!("            {:#}", failure.error)));
                Ok(Some(came))
            }
            (None, dropped) => dropped.map(|()| None),
        }
    }

    /// Makes room for a warm-up: an empty collection, and topics.
    fn make_room(&self, turn: &Turn<'_>, namespace: Option<&Namespace>) -> Result<(), Failure> {
        let job = &turn.test.job;
        if let Some(((hosted, _), namespace)) = turn.footing.hosted.as_ref().zip(namespace) {
            let rule = if job.existing == Existing::Drop { Existing::Drop } else { Existing::Refuse };
            self.say(collection_policy::clear(hosted, namespace, rule, &turn.left)?);
        }
        if let (Some((brokers, topics)), Some(warm_up)) = (&turn.footing.brokers, &job.warm_up) {
            for name in &warm_up.topics {
                self.say(brokers.make(name, topics)?);
            }
        }
        Ok(())
    }

    fn drop_room(&self, turn: &Turn<'_>, namespace: Option<&Namespace>) -> anyhow::Result<()> {
        if let Some(((hosted, _), namespace)) = turn.footing.hosted.as_ref().zip(namespace) {
            hosted.drop_collection(namespace)?;
        }
        if let (Some((brokers, _)), Some(warm_up)) = (&turn.footing.brokers, &turn.test.job.warm_up) {
            warm_up.topics.iter().try_for_each(|name| brokers.remove(name))?;
        }
        Ok(())
    }
}

/// What came of a run, if what was done before it already decides it.
fn cut_short(
    turn: &Turn<'_>,
    over: &Over,
    name: &str,
    whole: bool,
    log: &Path,
    settings: Settings,
) -> Option<Came> {
    if over.cause.is_some() {
        let came = judge(over, None, turn.test.timeout, settings, None);
        let reason = came.reason.map(|reason| format!("in the {name}: {reason}"));
        return Some(Came { reason, ..came });
    }
    let why = || last_words(log).unwrap_or_default();
    (!whole).then(|| Came::unmade(&anyhow::anyhow!("the {name} could not be made: {}", why())))
}
