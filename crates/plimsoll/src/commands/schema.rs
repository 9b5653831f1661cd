//! Implements `plimsoll schema`: prints JSON Schemas of the files, generated from the types that read them.

use anyhow::Context;
use plimsoll_measure::comparison::Comparison;
use plimsoll_measure::history::History;
use plimsoll_measure::matrix::Matrix;
use plimsoll_measure::run::Run;
use plimsoll_measure::stream::Stream;
use plimsoll_measure::suite::Suite;

use crate::cli::{SchemaArgs, SchemaOf};
use crate::registry::Registry;
use crate::terminal::print;
use plimsoll_run::exit::{Exit, Outcome};
use plimsoll_scenario::Scenario;
use plimsoll_stream::PipelineFile;
use schemars::Schema;
use serde_json::{Value, json};

/// Prints a schema.
///
/// # Errors
/// When it cannot be written.
pub fn schema(args: &SchemaArgs, registry: &Registry) -> Outcome<Exit> {
    print(&text(args.of, registry)?);
    Ok(Exit::Held)
}

fn text(of: SchemaOf, registry: &Registry) -> anyhow::Result<String> {
    let schema = match of {
        SchemaOf::Scenario => with_services(schemars::schema_for!(Scenario), registry),
        SchemaOf::Run => schemars::schema_for!(Run),
        SchemaOf::Matrix => schemars::schema_for!(Matrix),
        SchemaOf::Comparison => schemars::schema_for!(Comparison),
        SchemaOf::History => schemars::schema_for!(History),
        SchemaOf::Suite => schemars::schema_for!(Suite),
        SchemaOf::Pipeline => schemars::schema_for!(PipelineFile),
        SchemaOf::Stream => schemars::schema_for!(Stream),
        #[cfg(feature = "services")]
        SchemaOf::Workflow => plimsoll_workflow::definition::schema(),
        #[cfg(not(feature = "services"))]
        SchemaOf::Workflow => anyhow::bail!(plimsoll_systems::service_kind::NO_SERVICES),
    };
    Ok(format!("{}\n", serde_json::to_string_pretty(&schema).context("write the schema")?))
}

/// Completes the schema of a scenario with the sections of the services.
fn with_services(mut schema: Schema, registry: &Registry) -> Schema {
    if registry.services.is_empty() {
        return schema;
    }
    let mut sections = serde_json::Map::new();
    for service in registry.services {
        let product = registry.products.iter().find(|product| product.name() == service.name());
        let settings = json!({
            "description": "Its settings, as in its own file.",
            "type": "object",
            "default": product.map(|product| product.default_settings()),
        });
        let mut properties = json!({"settings": settings});
        if let Some(mut fill) = service.fill_schema() {
            hoist(&mut fill, &mut schema);
            properties["fill"] = fill;
        }
        let name = service.name().to_owned();
        sections
            .insert(name, json!({"type": "object", "properties": properties, "additionalProperties": false}));
    }
    if let Some(section) = schema.pointer_mut("/$defs/Service") {
        section["properties"] = sections.into();
        section["additionalProperties"] = false.into();
    }
    schema
}

/// Moves the definitions of a part to those of the whole.
fn hoist(part: &mut Value, schema: &mut Schema) {
    let Some(part) = part.as_object_mut() else { return };
    part.remove("$schema");
    let Some(Value::Object(definitions)) = part.remove("$defs") else { return };
    if let Some(all) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        all.extend(definitions);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::registry::SHIPPED;

    /// The environment variable that, if set, writes generated files instead of comparing them.
    const UPDATE: &str = "PLIMSOLL_UPDATE_DOCS";

    /// Compares a generated file, named from the root, with its current contents.
    pub fn hold(file: &str, made: &str) {
        let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, made).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == made, "{file} is out of date: run the tests once with {UPDATE}=1");
    }

    #[cfg(feature = "full")]
    #[test]
    fn the_schemas_in_the_docs_are_those_of_the_types() {
        hold("docs/reference/scenario.schema.json", &text(SchemaOf::Scenario, &SHIPPED).unwrap());
        hold("docs/reference/run.schema.json", &text(SchemaOf::Run, &SHIPPED).unwrap());
        hold("docs/reference/matrix.schema.json", &text(SchemaOf::Matrix, &SHIPPED).unwrap());
        hold("docs/reference/comparison.schema.json", &text(SchemaOf::Comparison, &SHIPPED).unwrap());
        hold("docs/reference/history.schema.json", &text(SchemaOf::History, &SHIPPED).unwrap());
        hold("docs/reference/suite.schema.json", &text(SchemaOf::Suite, &SHIPPED).unwrap());
        hold("docs/reference/pipeline.schema.json", &text(SchemaOf::Pipeline, &SHIPPED).unwrap());
        hold("docs/reference/stream.schema.json", &text(SchemaOf::Stream, &SHIPPED).unwrap());
        hold("docs/reference/workflow.schema.json", &text(SchemaOf::Workflow, &SHIPPED).unwrap());
    }

    #[test]
    fn the_metrics_in_the_docs_match_the_exposition() {
        let head = "# Metrics of a pipeline\n\n`plimsoll pipeline run --listen` serves these metrics. Every metric has the labels \
                    `pipeline`, `source` and `sink`. Names do not change.\n\n";
        hold(
            "docs/reference/pipeline-metrics.md",
            &format!("{head}{}", plimsoll_report::stream::reference()),
        );
    }

    #[test]
    fn the_command_line_in_the_docs_matches_the_program() {
        hold("docs/reference/command-line.md", &crate::commands::completions::reference());
    }
}
