//! Finds or starts the server and the brokers of one run if the suite owns them, and prepares and clears their data.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use plimsoll_deployment::{Namespace, await_servers};
use plimsoll_measure::inspection::Inspection;
use plimsoll_measure::suite::Kind;
use plimsoll_mongo::scenario::Existing;
use plimsoll_report::suite as report;
use plimsoll_run::console::{Console, Silent};
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::server_provisioning::{Choice, StartOptions};
use plimsoll_run::system::cpu_ns;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::broker::Brokers;
use super::kind::{Ended, Host};
use super::resolve::Test;
use super::topics::Topics;
use crate::server::{Contents, Server, When, nothing};

/// The indentation of a message about a collection or a topic.
const INDENT: &str = "            ";
/// The interval between two checks for a stop request during a wait for servers.
const POLL: Duration = Duration::from_millis(100);

/// The server and the brokers of one run, if the suite owns them.
pub struct Environment<'a> {
    test: &'a Test,
    /// The server, and the collection of the run.
    server: Option<(Server, Namespace)>,
    /// The brokers, and their topics.
    brokers: Option<(Brokers, &'a Topics)>,
    /// The identities of earlier attempts: their documents may be dropped.
    earlier: Vec<String>,
    /// Whether all documents in the collection after the run come from this run.
    is_ours: bool,
    /// Topics that the run created.
    created: Vec<String>,
}

impl<'a> Environment<'a> {
    /// Finds or starts the servers of run `number` of a test. A stop request, which sets the flag, ends the wait for late servers.
    ///
    /// # Errors
    /// When a server or broker cannot be installed, started or reached, or the user asks to stop.
    pub fn open(
        test: &'a Test,
        number: u32,
        earlier: Vec<String>,
        console: &'static dyn Console,
        (runtime, flag): (&Arc<Runtime>, &AtomicBool),
    ) -> Outcome<Self> {
        let (job, cpus) = (&test.job, test.server_cpus.as_ref());
        let mut report = |line: String| console.warn(&line);
        runtime.block_on(await_or_stop(job.awaited.clone(), &mut report, flag))?;
        let server = match (&job.host, job.namespace(number)) {
            (Host::Suite(choice, _), Some(namespace)) => {
                let timeout = Duration::from_nanos(job.patience.as_ns());
                // The suite has named the options of an address without effect, and has waited for its server.
                let console: &'static dyn Console =
                    if matches!(choice, Choice::Uri(_)) { &Silent } else { console };
                let start =
                    StartOptions { console, cache_bytes: job.cache_bytes, ..StartOptions::quiet(timeout) };
                Some((Server::open(choice, start, cpus, runtime)?, namespace))
            }
            _ => None,
        };
        let topics = job.topics.as_ref();
        let brokers = topics.map(|topics| Brokers::open(topics, cpus)).transpose()?.zip(topics);
        Ok(Self { test, server, brokers, earlier, is_ours: false, created: Vec::new() })
    }

    /// Whether the suite owns neither a server nor brokers.
    pub const fn is_empty(&self) -> bool {
        self.server.is_none() && self.brokers.is_none()
    }

    /// Inspects the collection and the topics, which may be missing.
    ///
    /// # Errors
    /// When the server or the brokers do not answer.
    pub fn inspect(&self, when: When) -> anyhow::Result<Inspection> {
        let mut inspection = match &self.server {
            Some((server, namespace)) => server.inspect(namespace, when)?,
            None => nothing(),
        };
        if let Some((brokers, topics)) = &self.brokers {
            inspection.topics = brokers.look(&topics.all())?;
        }
        Ok(inspection)
    }

    /// Applies the rules for collections and topics that are not empty, and creates missing topics; `before` is the inspection
    /// before. Returns messages about its actions.
    ///
    /// # Errors
    /// When a collection or topic is not empty and must not be cleared, or the server or the brokers refuse.
    pub fn clear(&mut self, before: &Inspection) -> Outcome<Vec<String>> {
        let mut messages = Vec::new();
        if let Some((server, namespace)) = &self.server {
            let message;
            (message, self.is_ours) = clear(server, namespace, self.test.job.existing, &self.earlier)?;
            messages.extend(message);
        }
        if let Some((brokers, topics)) = &self.brokers {
            for name in topics.created() {
                messages.extend(brokers.make(name, topics)?);
                let existed = before.topics.iter().any(|topic| topic.exists && topic.name == name);
                self.created.extend((!existed).then(|| name.to_owned()));
            }
            brokers.rewind(topics)?;
        }
        Ok(messages)
    }

    /// Prepares an empty collection and topics for the warm-up.
    ///
    /// # Errors
    /// When a collection or topic is not empty and must not be cleared, or the server or the brokers refuse.
    pub fn clear_warm_up(&self, namespace: Option<&Namespace>) -> Outcome<Vec<String>> {
        let (job, mut messages) = (&self.test.job, Vec::new());
        if let Some(((server, _), namespace)) = self.server.as_ref().zip(namespace) {
            let rule = if job.existing == Existing::Drop { Existing::Drop } else { Existing::Refuse };
            messages.extend(clear(server, namespace, rule, &self.earlier)?.0);
        }
        if let (Some((brokers, topics)), Some(warm_up)) = (&self.brokers, &job.warm_up) {
            for name in &warm_up.topics {
                messages.extend(brokers.make(name, topics)?);
            }
        }
        Ok(messages)
    }

    /// Drops the collection and the topics of the warm-up.
    ///
    /// # Errors
    /// When the server or the brokers refuse.
    pub fn drop_warm_up(&self, namespace: Option<&Namespace>) -> anyhow::Result<()> {
        if let Some(((server, _), namespace)) = self.server.as_ref().zip(namespace) {
            server.drop_collection(namespace)?;
        }
        if let (Some((brokers, _)), Some(warm_up)) = (&self.brokers, &self.test.job.warm_up) {
            warm_up.topics.iter().try_for_each(|name| brokers.remove(name))?;
        }
        Ok(())
    }

    /// The file of a pipeline that fills the topic that the run reads; `None` without a fill.
    ///
    /// # Errors
    /// When the brokers do not answer.
    pub fn filling(&self) -> Outcome<Option<String>> {
        let Some((brokers, topics)) = &self.brokers else { return Ok(None) };
        let Some(read) = topics.read.as_deref().filter(|_| topics.fill.is_some()) else { return Ok(None) };
        let found = brokers.look(&[read]).deserves(Exit::Server)?;
        let partitions = found.first().map_or(0, |topic| topic.partitions.len());
        Ok(topics.filling(brokers.address(), partitions))
    }

    /// The server's address for a run whose arguments lack it. A pipeline has the address in its file, unless its row names
    /// another.
    pub fn server_address(&self) -> Option<&str> {
        let in_arguments = self.test.kind.kind() == Kind::Pipeline && self.test.row.server.is_none();
        match (&self.server, &self.test.job.host) {
            (Some((server, _)), _) => Some(server.uri()).filter(|_| !in_arguments),
            (None, Host::Run(server)) => server.as_deref(),
            (None, Host::Suite(..)) => None,
        }
    }

    /// The brokers' address, if the row names brokers.
    pub fn brokers_address(&self) -> Option<&str> {
        let (brokers, _) = self.brokers.as_ref()?;
        self.test.row.broker.is_some().then(|| brokers.address())
    }

    /// Arguments that describe the server and the brokers to a run.
    pub fn arguments(&self) -> Vec<String> {
        match (self.test.kind.kind(), &self.server) {
            (Kind::Scenario, Some((server, _))) => server.arguments(),
            (Kind::Scenario, None) => Vec::new(),
            (Kind::Pipeline, _) => {
                let address = self.brokers_address().map(|it| ["--brokers".to_owned(), it.to_owned()]);
                address.into_iter().flatten().collect()
            }
        }
    }

    /// Their processes on this machine.
    pub fn pids(&self) -> Vec<u32> {
        let server = self.server.as_ref().map(|(server, _)| server.pids());
        let broker = self.brokers.as_ref().map(|(brokers, _)| brokers.pids());
        server.into_iter().chain(broker).flatten().collect()
    }

    /// Their CPU time so far, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        cpu_ns(&self.pids())
    }

    /// Drops the collection and the topics that the run created on servers that stay, unless their data has violations. Returns
    /// messages about its actions.
    pub fn tidy(&self, ended: Option<&Ended>) -> Vec<String> {
        let mut messages = Vec::new();
        if let Some((server, namespace)) = &self.server {
            messages.extend(self.tidy_collection(server, namespace, ended));
        }
        if let Some((brokers, topics)) = &self.brokers
            && topics.are_external()
            && topics.rule == Existing::Refuse
        {
            let whole = is_whole(ended);
            messages.extend(self.created.iter().map(|name| tidied(brokers, name, whole)));
        }
        messages
    }

    fn tidy_collection(
        &self,
        server: &Server,
        namespace: &Namespace,
        ended: Option<&Ended>,
    ) -> Option<String> {
        let job = &self.test.job;
        let is_own = job.existing == Existing::Refuse || job.has_own();
        if !server.stays() || !is_own {
            return None;
        }
        let is_cut = ended.is_none_or(|ended| ended.intact && ended.interrupted);
        Some(if self.is_ours && is_cut && job.has_own() {
            format!("{INDENT}{namespace} is kept, and is dropped if this run is repeated")
        } else if !self.is_ours || !is_whole(ended) {
            format!(
                "{INDENT}{namespace} is kept: to repeat this run, set existing to drop, or drop it yourself"
            )
        } else {
            match server.drop_collection(namespace) {
                Ok(()) => format!("{INDENT}{namespace} was created by this test and is dropped"),
                Err(error) => format!("{INDENT}{error:#}"),
            }
        })
    }
}

/// Waits for late servers until they answer, or until the flag is set.
async fn await_or_stop(
    uris: Vec<String>,
    report: &mut (dyn FnMut(String) + Send),
    flag: &AtomicBool,
) -> Outcome<()> {
    let mut servers = pin!(await_servers(uris, report));
    loop {
        if let Ok(answer) = timeout(POLL, servers.as_mut()).await {
            return answer.map_err(|error| {
                let exit = if error.is_of_the_uri() { Exit::Usage } else { Exit::Server };
                Failure { exit, error: error.into() }
            });
        }
        if flag.load(Ordering::Relaxed) {
            return Err(anyhow!("stopped while it waited for a server")).deserves(Exit::Interrupted);
        }
    }
}

fn is_whole(ended: Option<&Ended>) -> bool {
    ended.is_some_and(|ended| ended.intact && !ended.interrupted)
}

fn tidied(brokers: &Brokers, name: &str, whole: bool) -> String {
    if !whole {
        return format!(
            "{INDENT}topic {name} is kept: to repeat this run, set existing to drop, or remove it yourself"
        );
    }
    match brokers.remove(name) {
        Ok(()) => format!("{INDENT}topic {name} was created by this test and is removed"),
        Err(error) => format!("{INDENT}topic {name}: {error:#}"),
    }
}

/// Applies the rule for a collection that is not empty; documents of earlier attempts are dropped. Returns a
/// message, and whether all documents after the run will come from this run.
fn clear(
    server: &Server,
    namespace: &Namespace,
    rule: Existing,
    earlier: &[String],
) -> Outcome<(Option<String>, bool)> {
    let contents = server.contents(namespace, earlier).deserves(Exit::Server)?;
    let message = match (rule, contents) {
        (Existing::Refuse, Contents::Leftovers(documents)) => format!(
            "{INDENT}{namespace} held {documents} leftover documents of an earlier attempt, and was dropped"
        ),
        (Existing::Refuse, Contents::Foreign(documents)) => {
            return Err(anyhow!(
                "{namespace} is not empty ({documents} documents): name another collection with overrides, or use existing drop \
                 to drop it before the test"
            ))
            .deserves(Exit::Usage);
        }
        (Existing::Drop, Contents::Leftovers(documents) | Contents::Foreign(documents)) => {
            report::cleared(&namespace.to_string(), documents)
        }
        _ => return Ok((None, contents == Contents::Missing || rule == Existing::Drop)),
    };
    server.drop_collection(namespace).deserves(Exit::Server)?;
    Ok((Some(message), true))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::PathBuf;

    use plimsoll_measure::clock::{self, SECOND_NS};

    use super::*;
    use crate::suite::kind::TEST_REGISTRY;
    use crate::suite::read::parse;
    use crate::suite::resolve::{Arguments, build};

    #[test]
    fn a_stop_request_ends_the_wait_for_the_server_of_a_scenario() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("mongodb://{}/?serverSelectionTimeoutMS=60000", silent.local_addr().unwrap());
        let text = format!("name,scenario,duration,server\na,bulk-baseline,9s,{uri}\n");
        let loaded = parse("s", "s.csv", &text, PathBuf::from(".")).unwrap();
        let tests = build(&loaded, &Arguments::default(), TEST_REGISTRY).unwrap();
        let (flag, runtime) = (AtomicBool::new(true), Arc::new(plimsoll_deployment::runtime().unwrap()));
        let began = clock::now();
        let opened = Environment::open(&tests[0], 1, Vec::new(), &Silent, (&runtime, &flag));
        assert_eq!(opened.err().unwrap().exit, Exit::Interrupted);
        let took_ns = clock::now().since(began);
        assert!(took_ns < 5 * SECOND_NS, "{took_ns} ns");
    }

    #[test]
    fn an_invalid_uri_is_no_failure_of_a_server() {
        let (flag, runtime) = (AtomicBool::new(false), plimsoll_deployment::runtime().unwrap());
        let uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=9&loadBalanced=true".to_owned();
        let ended = runtime.block_on(await_or_stop(vec![uri], &mut |_| (), &flag));
        assert_eq!(ended.unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_stop_request_ends_the_wait_for_a_late_server() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("mongodb://{}/?serverSelectionTimeoutMS=60000", silent.local_addr().unwrap());
        let (flag, runtime) = (AtomicBool::new(false), plimsoll_deployment::runtime().unwrap());
        let mut requested = None;
        // The user asks to stop when the wait is announced.
        let mut report = |_: String| {
            flag.store(true, Ordering::Relaxed);
            requested = Some(clock::now());
        };
        let ended = runtime.block_on(await_or_stop(vec![uri], &mut report, &flag));
        assert_eq!(ended.unwrap_err().exit, Exit::Interrupted);
        let took_ns = clock::now().since(requested.unwrap());
        assert!(took_ns < 5 * SECOND_NS, "{took_ns} ns");
    }
}
