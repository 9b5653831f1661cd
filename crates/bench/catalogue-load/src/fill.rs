//! Reads and bounds the section `service.catalogue.fill`, and sizes the fill.

use anyhow::{Context, ensure};
use plimsoll_run::system::Fill;
use plimsoll_scenario::{ServiceSpec, of_tree};
use plimsoll_systems::FillMoment;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The largest value of each key.
const DATASETS_MAX: u64 = 10_000_000;
const FIELDS_MAX: u64 = 3_000;
/// The maximum number of fields of all datasets together.
const ALL_FIELDS_MAX: u64 = 1_000_000_000;

/// The data that the catalogue holds before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Section {
    /// The number of published datasets, from `PID.SAMPLE.PREFIX/predefined_0` on.
    datasets: u64,
    /// The number of fields in the metadata of each dataset.
    #[serde(default = "fields_default")]
    fields: u64,
    /// Whether a run that starts its server keeps the filled database, and later runs of the same fill use it. Three are kept.
    #[serde(default)]
    snapshot: bool,
}

const fn fields_default() -> u64 {
    10
}

/// The JSON Schema of the section.
pub fn schema() -> Value {
    schemars::schema_for!(Section).to_value()
}

/// Reads and checks the section of a scenario. `None` if it is missing.
///
/// # Errors
/// When a key is invalid. The error names its path.
pub fn fill(spec: &ServiceSpec, moment: FillMoment) -> anyhow::Result<Option<Fill>> {
    let Some(typed) = &spec.fill else { return Ok(None) };
    let section = Section::deserialize(typed)
        .map_err(|error| anyhow::anyhow!("service.catalogue.fill: {}", of_tree(&error, typed)))?;
    section.check()?;
    Ok(Some(section.sized(moment)?))
}

impl Section {
    fn check(&self) -> anyhow::Result<()> {
        let Self { datasets, fields, .. } = *self;
        for (key, number, most) in [("datasets", datasets, DATASETS_MAX), ("fields", fields, FIELDS_MAX)] {
            ensure!(number <= most, "service.catalogue.fill.{key}: {number} is over {most}");
        }
        let all = datasets.saturating_mul(fields);
        ensure!(
            all <= ALL_FIELDS_MAX,
            "service.catalogue.fill: {datasets} datasets × {fields} fields are {all}, over {ALL_FIELDS_MAX}: lower `datasets` or `fields`"
        );
        Ok(())
    }

    fn sized(&self, moment: FillMoment) -> anyhow::Result<Fill> {
        let Self { datasets, fields, snapshot } = *self;
        let end_ms = i64::try_from(moment.end_ms).context("the clock of this machine is out of range")?;
        Ok(Fill {
            documents: datasets,
            writes: datasets,
            description: format!("{datasets} datasets with {fields} fields of metadata"),
            order: json!({"seed": moment.seed, "end_ms": end_ms, "datasets": datasets, "fields": fields}),
            snapshot: snapshot.then(|| json!({"seed": moment.seed, "datasets": datasets, "fields": fields})),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fill: &str) -> anyhow::Result<Option<Fill>> {
        let spec: ServiceSpec = serde_saphyr::from_str(&format!("catalogue: {fill}")).unwrap();
        super::fill(&spec, FillMoment { seed: 3, end_ms: 1_790_000_000_000 })
    }

    #[test]
    fn a_fill_is_sized_and_ordered() {
        let filled = read("{fill: {datasets: 1000}}").unwrap().unwrap();
        assert_eq!((filled.documents, filled.writes), (1_000, 1_000));
        let order = json!({"seed": 3, "end_ms": 1_790_000_000_000_u64, "datasets": 1000, "fields": 10});
        assert_eq!(filled.order, order);
        assert!(read("{}").unwrap().is_none());
    }

    #[test]
    fn a_snapshot_is_asked_for_and_does_not_depend_on_the_time() {
        let kept = read("{fill: {datasets: 1000, snapshot: true}}").unwrap().unwrap();
        assert_eq!(kept.snapshot, Some(json!({"seed": 3, "datasets": 1000, "fields": 10})));
        assert_eq!(read("{fill: {datasets: 1000}}").unwrap().unwrap().snapshot, None);
    }

    #[test]
    fn invalid_keys_are_refused_with_their_path() {
        for (fill, words) in [
            ("{dataset: 1}", "dataset"),
            ("{datasets: many}", "service.catalogue.fill"),
            ("{datasets: 10_000_001}", "datasets: 10000001 is over 10000000"),
            ("{datasets: 1, fields: 3001}", "fields: 3001 is over 3000"),
            ("{datasets: 1_000_000, fields: 3000}", "lower `datasets` or `fields`"),
        ] {
            let error = read(&format!("{{fill: {fill}}}")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
