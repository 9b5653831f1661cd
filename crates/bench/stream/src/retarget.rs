//! Redirects a pipeline's sections to other servers and brokers.

use plimsoll_deployment::{
    Error, await_servers, pool_warnings, runtime, warnings, warnings_of_driver, write_concern_of,
};

use super::typed::{PipelineFile, PositionsSection, SinkSection, SourceSection};

/// The warning about a write concern for positions: positions that a failover loses would repeat events or
/// lose them.
const POSITIONS_ARE_DURABLE: &str = "the write concern in the address of the positions has no effect: positions are written with a journaled majority";

impl PipelineFile {
    /// Redirects every section to another MongoDB server and to other brokers.
    pub fn point(&mut self, server: Option<&str>, brokers: Option<&str>) {
        if let Some(server) = server {
            self.uris().into_iter().for_each(|uri| server.clone_into(uri));
        }
        if let Some(brokers) = brokers {
            self.brokers().into_iter().for_each(|all| brokers.clone_into(all));
        }
    }

    /// The URIs of all MongoDB servers, the sink's first.
    pub fn uris(&mut self) -> Vec<&mut String> {
        let source = match &mut self.source {
            SourceSection::ChangeStream(stream) => Some(&mut stream.uri),
            SourceSection::Scan(scan) => Some(&mut scan.uri),
            _ => None,
        };
        let positions = match &mut self.positions {
            Some(PositionsSection::Collection(positions)) => Some(&mut positions.uri),
            _ => None,
        };
        let sinks = std::iter::once(&mut self.sink).chain(&mut self.dead_letters);
        sinks.filter_map(SinkSection::uri).chain(source).chain(positions).collect()
    }

    /// Waits for each server whose URI says how long, and reports a long wait in one line. Every part of a pipeline connects without
    /// such a wait, so it takes place before the first part starts.
    ///
    /// # Errors
    /// If a server does not answer in time, or refuses the connection for good.
    pub fn await_servers(&self, report: &mut (dyn FnMut(String) + Send)) -> Result<(), Error> {
        let uris = self.clone().uris().into_iter().map(|uri| uri.clone()).collect();
        runtime()?.block_on(await_servers(uris, report))
    }

    /// One sentence for each option without effect in the URIs, each once. A change stream reads with the
    /// official driver.
    pub fn uri_warnings(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut file = self.clone();
        if let SourceSection::ChangeStream(stream) = &mut file.source {
            all.extend(warnings_of_driver(&stream.uri).into_iter().chain(warnings(&stream.uri)));
            // The driver has its own pool, so `pool_warnings` does not apply to this URI.
            stream.uri.clear();
        }
        if let Some(PositionsSection::Collection(positions)) = &file.positions
            && let Ok(Some(concern)) = write_concern_of(&positions.uri)
            && !concern.is_within_durable()
        {
            all.push(POSITIONS_ARE_DURABLE.to_owned());
        }
        all.extend(file.uris().iter().flat_map(|uri| warnings(uri).into_iter().chain(pool_warnings(uri))));
        let mut unique = Vec::new();
        for warning in all {
            if !unique.contains(&warning) {
                unique.push(warning);
            }
        }
        unique
    }

    /// The addresses of all brokers.
    #[cfg(feature = "kafka")]
    pub fn brokers(&mut self) -> Vec<&mut String> {
        let source = match &mut self.source {
            SourceSection::Kafka(source) => Some(&mut source.brokers),
            _ => None,
        };
        let sinks = std::iter::once(&mut self.sink).chain(&mut self.dead_letters);
        let sinks = sinks.filter_map(|sink| match sink {
            SinkSection::Kafka(kafka) => Some(&mut kafka.brokers),
            _ => None,
        });
        source.into_iter().chain(sinks).collect()
    }

    /// The addresses of all brokers: none in this build.
    #[cfg(not(feature = "kafka"))]
    pub fn brokers(&mut self) -> Vec<&mut String> {
        Vec::new()
    }

    /// The topic of the source.
    #[cfg(feature = "kafka")]
    pub fn topic_read(&self) -> Option<&str> {
        match &self.source {
            SourceSection::Kafka(source) => Some(&source.topic),
            _ => None,
        }
    }

    /// The topic of the source: none in this build.
    #[cfg(not(feature = "kafka"))]
    pub fn topic_read(&self) -> Option<&str> {
        None
    }

    /// The group of the source.
    #[cfg(feature = "kafka")]
    pub fn group(&self) -> Option<&str> {
        match &self.source {
            SourceSection::Kafka(source) => Some(&source.group),
            _ => None,
        }
    }

    /// The group of the source: none in this build.
    #[cfg(not(feature = "kafka"))]
    pub fn group(&self) -> Option<&str> {
        None
    }

    /// The topics of the sinks, including dead letters.
    #[cfg(feature = "kafka")]
    pub fn topics_written(&self) -> Vec<&str> {
        let sinks = std::iter::once(&self.sink).chain(&self.dead_letters);
        let kafka = sinks.filter_map(|sink| match sink {
            SinkSection::Kafka(kafka) => Some(kafka),
            _ => None,
        });
        let topics = kafka.flat_map(|sink| {
            let letters = sink.exactly_once.as_ref().and_then(|once| once.dead_letters.as_deref());
            std::iter::once(sink.topic.as_str()).chain(letters)
        });
        topics.collect()
    }

    /// The topics of the sinks: none in this build.
    #[cfg(not(feature = "kafka"))]
    pub fn topics_written(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The collection of the sink.
    pub fn collection_written(&self) -> Option<&str> {
        match &self.sink {
            SinkSection::Insert(insert) => Some(&insert.collection),
            SinkSection::Keyed(keyed) => Some(&keyed.collection),
            SinkSection::Vector(vector) => Some(&vector.collection),
            SinkSection::Transactional(transactional) => Some(&transactional.collection),
            _ => None,
        }
    }
}

impl SinkSection {
    fn uri(&mut self) -> Option<&mut String> {
        match self {
            Self::Insert(insert) => Some(&mut insert.uri),
            Self::Keyed(keyed) => Some(&mut keyed.uri),
            Self::Vector(vector) => Some(&mut vector.uri),
            Self::Transactional(transactional) => Some(&mut transactional.uri),
            _ => None,
        }
    }
}

#[cfg(test)]
#[cfg(feature = "kafka")]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_redirected() {
        let text = "source: {kafka: {brokers: 'a:1', topic: in, group: g}}\n\
                    sink: {insert: {uri: 'mongodb://a', collection: d.c}}\n\
                    dead_letters: {kafka: {brokers: 'a:1', topic: dead}}\n\
                    positions: {collection: {uri: 'mongodb://a'}}\n";
        let mut file: PipelineFile = serde_saphyr::from_str(text).unwrap();
        file.point(Some("mongodb://b"), Some("b:2"));
        assert_eq!(file.uris(), ["mongodb://b", "mongodb://b"]);
        assert_eq!(file.brokers(), ["b:2", "b:2"]);
        assert_eq!(
            (file.topic_read(), file.group(), file.topics_written()),
            (Some("in"), Some("g"), vec!["dead"])
        );
        assert_eq!(file.collection_written(), Some("d.c"));
    }

    #[test]
    fn a_weaker_write_concern_of_the_positions_has_no_effect_and_is_named() {
        let check = |options: &str, expected: &[&str]| {
            let text = format!(
                "source: {{change_stream: {{uri: 'mongodb://a', watch: d.c}}}}\nsink: {{noop: {{}}}}\n\
                 positions: {{collection: {{uri: 'mongodb://a/{options}'}}}}\n"
            );
            let file: PipelineFile = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(file.uri_warnings(), expected, "{options}");
        };
        check("", &[]);
        check("?w=majority&journal=true", &[]);
        check("?w=1", &[POSITIONS_ARE_DURABLE]);
        check("?w=majority&journal=false", &[POSITIONS_ARE_DURABLE]);
    }
}
