//! Explains that this build lacks Kafka or vectors, and how to build a program with them.

/// The refusal of a build without the feature `kafka`.
pub const NO_KAFKA: &str = "this program was built without Kafka: build it with `cargo build --release --features full`, or install it with \
                            `cargo install --locked --path crates/plimsoll --features full`";
/// The refusal of a build without the feature `embedding`.
pub const NO_EMBEDDING: &str = "this program was built without vectors of texts: build it with `cargo build --release --features full`, or \
                                install it with `cargo install --locked --path crates/plimsoll --features full`";

/// Replaces a Kafka section. It has no value: reading one is an error.
#[cfg(not(feature = "kafka"))]
#[derive(Clone, Copy, Debug)]
pub enum NoKafka {}

#[cfg(not(feature = "kafka"))]
impl<'de> serde::Deserialize<'de> for NoKafka {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom(NO_KAFKA))
    }
}

/// Replaces the section of a transform into vectors. It has no value: reading one is an error.
#[cfg(not(feature = "embedding"))]
#[derive(Clone, Copy, Debug)]
pub enum NoEmbedding {}

#[cfg(not(feature = "embedding"))]
impl<'de> serde::Deserialize<'de> for NoEmbedding {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom(NO_EMBEDDING))
    }
}

#[cfg(not(any(feature = "kafka", feature = "embedding")))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::PipelineFile;

    #[test]
    fn a_section_that_this_build_lacks_is_refused_with_the_command_that_builds_it() {
        let check = |text: &str, refusal: &str| {
            let error = plimsoll_scenario::parse_with::<PipelineFile>(text, "p.yaml", &[]).unwrap_err();
            assert!(format!("{error:#}").contains(refusal), "{error:#}");
        };
        let kafka = "{kafka: {brokers: 'h:1', topic: t, group: g}}";
        check(&format!("source: {kafka}\nsink: {{noop: {{}}}}\n"), NO_KAFKA);
        check(&format!("source: {{generator: {{}}}}\nsink: {kafka}\n"), NO_KAFKA);
        check("source: {generator: {}}\ntransforms: [{embed: {}}]\nsink: {noop: {}}\n", NO_EMBEDDING);
    }
}
