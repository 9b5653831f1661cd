//! Warns of valid but risky pipelines.

use plimsoll_pipeline::security::Principal;

use super::typed::{PipelineFile, SourceSection};

impl PipelineFile {
    /// Warns that the name under which events are admitted is not verified.
    pub fn caution(&self) -> Option<String> {
        let Principal::Fixed(name) = &self.security.as_ref()?.principal else { return None };
        if self.source.authenticates() {
            return None;
        }
        Some(format!(
            "warning: `security.principal` attributes every event to `{name}`, but the source (`{}`) connects without authentication, so \
             events of any writer are admitted under that name; {}",
            self.source.kind(),
            self.source.remedy()
        ))
    }
}

impl SourceSection {
    /// Whether the source authenticates, or needs no authentication: a generator or a file.
    fn authenticates(&self) -> bool {
        match self {
            Self::Generator(_) | Self::File(_) => true,
            #[cfg(feature = "kafka")]
            Self::Kafka(typed) => typed.properties.authenticate(),
            #[cfg(not(feature = "kafka"))]
            Self::Kafka(missing) => match *missing {},
            Self::ChangeStream(typed) => typed.authenticates(),
            Self::Scan(typed) => typed.authenticates(),
        }
    }

    /// The remedy for a missing authentication.
    const fn remedy(&self) -> &'static str {
        match self {
            Self::ChangeStream(_) | Self::Scan(_) => "give `uri` a user and a password",
            _ => "give `properties` SASL, or a certificate of the client",
        }
    }
}
