//! Builds the properties and the Java options of a broker from its settings.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::home::Storage;

/// The smallest heap that a broker starts with.
pub const HEAP_BYTES_MIN: u64 = 128 << 20;
/// The log level of both commands, the formatting of the storage and the broker: warnings only.
const LOGGING: &str = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn";

/// Settings of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The directory of the data.
    pub storage: Storage,
    /// The largest heap of the JVM, in bytes; smaller values count as [`HEAP_BYTES_MIN`].
    pub heap_bytes_max: u64,
    /// Further properties of `server.properties`; they override the defaults.
    pub properties: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { storage: Storage::Temporary, heap_bytes_max: 512 << 20, properties: BTreeMap::new() }
    }
}

/// The two ports of a broker on the loopback address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    /// The port for clients.
    pub(super) clients: u16,
    /// The port of the controller; only the broker itself connects to it.
    pub(super) controller: u16,
}

impl Settings {
    /// The text of `server.properties`: one node that is broker and controller, with one replica of everything.
    pub(super) fn properties(&self, ports: Ports, data: &Path) -> String {
        let mut all = fixed();
        let Ports { clients, controller } = ports;
        let own = [
            ("listeners", format!("PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}")),
            ("advertised.listeners", format!("PLAINTEXT://127.0.0.1:{clients}")),
            ("controller.quorum.voters", format!("1@127.0.0.1:{controller}")),
            ("log.dirs", data.display().to_string()),
        ];
        all.extend(own.map(|(name, value)| (name.to_owned(), value)));
        all.extend(self.properties.clone());
        all.iter().fold(String::new(), |mut text, (name, value)| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}={value}");
            text
        })
    }

    /// The options of the broker's JVM.
    pub(super) fn java(&self) -> Vec<String> {
        let heap = self.heap_bytes_max.max(HEAP_BYTES_MIN) >> 20;
        let direct = (heap / 2).max(64);
        vec![
            format!("-Xmx{heap}m"),
            format!("-XX:MaxDirectMemorySize={direct}m"),
            "-XX:+UseG1GC".to_owned(),
            "-XX:MaxMetaspaceSize=192m".to_owned(),
            "-XX:-UsePerfData".to_owned(),
            LOGGING.to_owned(),
        ]
    }
}

/// The options of the JVM that formats the storage.
pub(super) fn java_of_format() -> Vec<String> {
    ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", LOGGING]
        .map(str::to_owned)
        .to_vec()
}

/// The properties that are the same for every broker.
fn fixed() -> BTreeMap<String, String> {
    const FIXED: &[(&str, &str)] = &[
        ("process.roles", "broker,controller"),
        ("node.id", "1"),
        ("controller.listener.names", "CONTROLLER"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
        ("offsets.topic.replication.factor", "1"),
        ("offsets.topic.num.partitions", "4"),
        ("transaction.state.log.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
        ("transaction.state.log.num.partitions", "4"),
        ("share.coordinator.state.topic.replication.factor", "1"),
        ("share.coordinator.state.topic.min.isr", "1"),
        // An abandoned transaction blocks its readers until the broker aborts it, so the broker checks often.
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000"),
        // A misspelt topic must cause an error.
        ("auto.create.topics.enable", "false"),
        ("delete.topic.enable", "true"),
        // A group with one member need not wait for others.
        ("group.initial.rebalance.delay.ms", "0"),
        // After kill -9 the old registration blocks the broker until its session ends.
        ("broker.session.timeout.ms", "6000"),
        ("broker.heartbeat.interval.ms", "1000"),
        ("log.cleaner.dedupe.buffer.size", "8388608"),
        ("num.network.threads", "2"),
        ("num.io.threads", "4"),
    ];
    FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { clients: 4001, controller: 4002 };

    #[test]
    fn a_property_of_the_caller_wins() {
        let properties = [("num.io.threads".to_owned(), "1".to_owned())].into();
        let settings = Settings { properties, ..Settings::default() };
        let text = settings.properties(PORTS, Path::new("/data"));
        assert!(text.contains("\nnum.io.threads=1\n") && !text.contains("num.io.threads=4"), "{text}");
        assert!(text.contains("advertised.listeners=PLAINTEXT://127.0.0.1:4001\n"), "{text}");
        assert!(text.contains("controller.quorum.voters=1@127.0.0.1:4002\n"), "{text}");
        assert!(text.contains("log.dirs=/data\n"), "{text}");
    }

    #[test]
    fn memory_is_bounded_and_never_too_small_to_start() {
        let java = |heap_bytes_max| Settings { heap_bytes_max, ..Settings::default() }.java();
        assert!(java(1 << 30).contains(&"-Xmx1024m".to_owned()));
        assert!(java(0).contains(&"-Xmx128m".to_owned()));
        assert!(java(1 << 30).contains(&"-XX:MaxDirectMemorySize=512m".to_owned()));
    }
}
