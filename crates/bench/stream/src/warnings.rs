//! Warns of valid but risky pipelines.

use plimsoll_pipeline::security::Principal;

use super::typed::{PipelineFile, SourceSection};

impl PipelineFile {
    /// What should be known before events are admitted: that nobody checked the name which they are admitted under.
    pub fn caution(&self) -> Option<String> {
        let Principal::Fixed(name) = &self.security.as_ref()?.principal else { return None };
        if self.source.authenticates() {
            return None;
        }
        Some(format!(
            "caution: `security.principal` says that every event comes from `{name}`, but the source (`{}`) connects as nobody, so \
             whoever may write there is admitted under that name; {}",
            self.source.kind(),
            self.source.remedy()
        ))
    }
}

impl SourceSection {
    /// Whether it tells who reads, or needs to tell nobody: what is made up here, or lies in a file.
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

    /// How it would tell.
    const fn remedy(&self) -> &'static str {
        match self {
            Self::ChangeStream(_) | Self::Scan(_) => "give `uri` a user and a password",
            _ => "give `properties` SASL, or a certificate of the client",
        }
    }
}
