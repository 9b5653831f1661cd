//! Finds or starts the server and brokers of a run where the suite owns them, inspects them, and clears them by rule.

use plimsoll_deployment::Namespace;
use plimsoll_measure::inspection::Inspection;
use plimsoll_mongo::scenario::Existing;
use tokio::runtime::Runtime;

use super::broker::Brokers;
use super::collection_policy;
use super::host::{self, Hosted, When, nothing};
use super::kind::{Ended, Host};
use super::resolve::Test;
use super::topics::Topics;
use plimsoll_run::console::Console;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::system::cpu_ns;

/// A line that is said of a topic begins so.
const INDENT: &str = "            ";

/// What a run works on.
#[derive(Default)]
pub struct Footing<'a> {
    /// The server, and the collection that the run writes to.
    pub hosted: Option<(Hosted<'a>, Namespace)>,
    /// The brokers, and their topics.
    pub brokers: Option<(Brokers, &'a Topics)>,
    /// Whether everything that is in the collection after the run is of this run.
    is_ours: bool,
    /// Topics that were not there before.
    made: Vec<String>,
}

impl<'a> Footing<'a> {
    /// Finds or starts what run `number` of a test needs.
    ///
    /// # Errors
    /// When something cannot be installed, started or reached.
    pub fn open(
        test: &'a Test,
        number: u32,
        console: &'static dyn Console,
        runtime: &'a Runtime,
    ) -> Outcome<Self> {
        let cpus = test.server_cpus.as_ref();
        let hosted = match (&test.job.host, test.job.namespace(number)) {
            (Host::Suite(choice, _), Some(namespace)) => {
                let start = host::Start {
                    choice,
                    cpus,
                    cache_bytes: test.job.cache_bytes,
                    patience: test.job.patience,
                    console,
                };
                Some((Hosted::open(start, runtime)?, namespace))
            }
            _ => None,
        };
        let topics = test.job.topics.as_ref();
        let brokers = match topics {
            Some(topics) => Some((Brokers::open(topics, cpus)?, topics)),
            None => None,
        };
        Ok(Self { hosted, brokers, ..Self::default() })
    }

    /// Whether there is anything to look at.
    pub const fn is_empty(&self) -> bool {
        self.hosted.is_none() && self.brokers.is_none()
    }

    /// Looks at the collection and the topics, which need not be there.
    ///
    /// # Errors
    /// When the server or the brokers do not answer.
    pub fn look(&self, when: When) -> anyhow::Result<Inspection> {
        let mut seen = match &self.hosted {
            Some((hosted, namespace)) => hosted.look(namespace, when)?,
            None => nothing(),
        };
        if let Some((brokers, topics)) = &self.brokers {
            seen.topics = brokers.look(&topics.all())?;
        }
        Ok(seen)
    }

    /// Does what the rules say about a collection and topics that are not empty, and makes the topics that are not there;
    /// `before` is what was seen of them, and `left` the runs whose documents are not in the way. What was done, in words.
    ///
    /// # Errors
    /// When something is in the way, or the server or the brokers refuse.
    pub fn clear(
        &mut self,
        existing: Existing,
        before: &Inspection,
        left: &[String],
    ) -> Outcome<Vec<String>> {
        let mut said = Vec::new();
        if let Some((hosted, namespace)) = &self.hosted {
            let name = namespace.to_string();
            let was_there = before.collections.iter().any(|it| it.exists && it.namespace == name);
            let cleared = collection_policy::clear(hosted, namespace, existing, left)?;
            self.is_ours = !was_there || existing == Existing::Drop || cleared.is_some();
            said.extend(cleared);
        }
        if let Some((brokers, topics)) = &self.brokers {
            for name in topics.made() {
                said.extend(brokers.make(name, topics)?);
                let was_there = before.topics.iter().any(|topic| topic.exists && topic.name == name);
                self.made.extend((!was_there).then(|| name.to_owned()));
            }
            brokers.rewind(topics)?;
        }
        Ok(said)
    }

    /// The pipeline that fills the topic that is read, as a file; nothing where none is filled.
    ///
    /// # Errors
    /// When the brokers do not answer.
    pub fn filling(&self) -> Outcome<Option<String>> {
        let Some((brokers, topics)) = &self.brokers else { return Ok(None) };
        let Some(read) = topics.read.as_deref().filter(|_| topics.fill.is_some()) else { return Ok(None) };
        let there = brokers.look(&[read]).deserves(Exit::Server)?;
        let partitions = there.first().map_or(0, |topic| topic.partitions.len());
        Ok(topics.filling(brokers.address(), partitions))
    }

    /// Words that tell a pipeline where its brokers are, where the row says them.
    pub fn words(&self, test: &Test) -> Vec<String> {
        let brokers = self.address(test).map(|address| ["--brokers".to_owned(), address.to_owned()]);
        brokers.into_iter().flatten().collect()
    }

    /// The brokers, where the row says them.
    pub fn address(&self, test: &Test) -> Option<&str> {
        let (brokers, _) = self.brokers.as_ref()?;
        test.row.broker.is_some().then(|| brokers.address())
    }

    /// Processes on this machine.
    pub fn pids(&self) -> Vec<u32> {
        let server = self.hosted.as_ref().map(|(hosted, _)| hosted.pids());
        let broker = self.brokers.as_ref().map(|(brokers, _)| brokers.pids());
        server.into_iter().chain(broker).flatten().collect()
    }

    /// CPU that they have used so far, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        cpu_ns(&self.pids())
    }

    /// Drops and removes what the test made on what stays, if nothing in it is wrong. What was done, in words.
    pub fn tidy(&self, test: &Test, ended: Option<&Ended>) -> Vec<String> {
        let mut said = Vec::new();
        if let Some((hosted, namespace)) = &self.hosted {
            said.extend(collection_policy::tidy(hosted, namespace, &test.job, self.is_ours, ended));
        }
        let whole = ended.is_some_and(|ended| ended.intact && !ended.interrupted);
        if let Some((brokers, topics)) = &self.brokers
            && topics.stay()
            && topics.rule == Existing::Refuse
        {
            said.extend(self.made.iter().map(|name| tidied(brokers, name, whole)));
        }
        said
    }
}

fn tidied(brokers: &Brokers, name: &str, whole: bool) -> String {
    if !whole {
        return format!(
            "{INDENT}topic {name} stays as it is: to make this run again, say existing drop, or remove it yourself"
        );
    }
    match brokers.remove(name) {
        Ok(()) => format!("{INDENT}topic {name} was made by this test and is removed"),
        Err(error) => format!("{INDENT}topic {name}: {error:#}"),
    }
}
