//! Makes the bodies of the workload `dataset`: new datasets with wide metadata, as the published assessment of SciCat sends them.

use std::sync::Arc;

use plimsoll_http::setup::{Part, ReadBack, Shown, Workload, WorkloadContext};
use plimsoll_measure::random::{STEP, mix};
use plimsoll_systems::WorkloadResult;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The maximum number of fields of a dataset.
const FIELDS_MAX: u64 = 3_000;

/// The settings, as typed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    /// The number of fields in the metadata.
    fields: u64,
    /// The group that owns the datasets.
    #[serde(default = "group_default")]
    group: String,
    /// Whether each acknowledged dataset is read back after the load.
    #[serde(default)]
    read_back: bool,
}

fn group_default() -> String {
    "bench".into()
}

/// Builds the workload from its settings.
///
/// # Errors
/// When a setting is invalid.
pub fn make(settings: &Value, context: WorkloadContext) -> WorkloadResult {
    let typed = Typed::deserialize(settings);
    let typed = typed.map_err(|error| format!("{error}; write {{dataset: {{fields: 100}}}}"))?;
    if typed.fields > FIELDS_MAX {
        return Err(format!("dataset.fields: {}; give a number up to {FIELDS_MAX}", typed.fields));
    }
    Ok(Arc::new(Datasets { typed, context }))
}

/// New datasets as request bodies.
#[derive(Clone, Debug)]
struct Datasets {
    typed: Typed,
    context: WorkloadContext,
}

impl Datasets {
    /// The PID of a request. No two operations share a PID, in one run or in two.
    fn pid(&self, number: u64) -> String {
        let run = mix(self.context.seed.wrapping_add(STEP)) ^ self.context.start_ms.cast_unsigned();
        format!("PID.SAMPLE.PREFIX/in-{run:016x}-{number}")
    }

    fn metadata(&self, number: u64) -> Map<String, Value> {
        let first = mix(self.context.seed ^ mix(number.wrapping_add(STEP)));
        let value = |field: u64| mix(first.wrapping_add(field)) % 1_000_000;
        let field = |field| json!({"value": format!("Sample data {}", value(field)), "unit": "unit"});
        (0..self.typed.fields).map(|number| (format!("field_{number}"), field(number))).collect()
    }

    fn dataset(&self, number: u64) -> Value {
        json!({
            "pid": self.pid(number), "type": "raw", "owner": "bench", "ownerGroup": self.typed.group,
            "accessGroups": [], "contactEmail": "bench@example.org", "principalInvestigator": "bench",
            "creationLocation": "/bench", "sourceFolder": format!("/data/in-{number}"),
            "creationTime": "2025-01-01T00:00:00.000Z", "datasetName": format!("dataset {number}"),
            "scientificMetadata": self.metadata(number),
        })
    }
}

impl Workload for Datasets {
    fn body(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.dataset(number).to_string().as_bytes());
    }

    fn read_back(&self) -> Option<&dyn ReadBack> {
        self.typed.read_back.then_some(self)
    }
}

impl ReadBack for Datasets {
    fn parts(&self, _: u64) -> u64 {
        1
    }

    fn path(&self, part: Part, out: &mut Vec<u8>) {
        let pid = self.pid(part.number).replace('/', "%2F");
        out.extend_from_slice(format!("/api/v3/datasets/{pid}").as_bytes());
    }

    /// The answer must show every sent field with its value. The catalogue adds fields, also within the metadata.
    fn judge(&self, part: Part, answer: &[u8]) -> Shown {
        let Ok(shown) = serde_json::from_slice::<Value>(answer) else { return Shown::Unclear };
        let sent = self.dataset(part.number);
        match shown.get("pid") {
            Some(pid) if *pid == sent["pid"] && contains(&shown, &sent) => Shown::Intact,
            Some(pid) if *pid == sent["pid"] => Shown::Altered,
            _ => Shown::Unclear,
        }
    }
}

/// Whether `shown` has every field of `sent`, at every level. Values other than objects must be equal.
fn contains(shown: &Value, sent: &Value) -> bool {
    match (shown, sent) {
        (Value::Object(shown), Value::Object(sent)) => {
            sent.iter().all(|(name, value)| shown.get(name).is_some_and(|shown| contains(shown, value)))
        }
        (shown, sent) => shown == sent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(settings: &Value, seed: u64) -> Arc<dyn Workload> {
        make(settings, WorkloadContext { seed, start_ms: 1_790_000_000_000 }).unwrap()
    }

    fn body(workload: &dyn Workload, number: u64) -> Value {
        let mut out = Vec::new();
        workload.body(number, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn the_seed_and_the_number_determine_a_body() {
        let settings = json!({"fields": 100});
        let (one, other) = (workload(&settings, 1), workload(&settings, 2));
        assert_eq!(body(&*one, 7), body(&*one, 7));
        assert_ne!(body(&*one, 7)["pid"], body(&*one, 8)["pid"]);
        assert_ne!(body(&*one, 7)["pid"], body(&*other, 7)["pid"]);
        assert_eq!(body(&*one, 7)["scientificMetadata"].as_object().unwrap().len(), 100);
        assert!(one.read_back().is_none());
    }

    #[test]
    fn each_dataset_is_read_by_its_pid_and_compared() {
        let workload = workload(&json!({"fields": 2, "read_back": true}), 1);
        let (reader, part) = (workload.read_back().unwrap(), Part { number: 7, index: 0 });
        let mut path = Vec::new();
        reader.path(part, &mut path);
        let path = String::from_utf8(path).unwrap();
        assert!(
            path.starts_with("/api/v3/datasets/PID.SAMPLE.PREFIX%2Fin-") && path.ends_with("-7"),
            "{path}"
        );
        let mut shown = body(&*workload, 7);
        shown["createdBy"] = "bench".into();
        shown["scientificMetadata"]["field_0"]["unitSI"] = "unit".into();
        let judge = |shown: &Value| reader.judge(part, shown.to_string().as_bytes());
        assert_eq!(judge(&shown), Shown::Intact);
        shown["scientificMetadata"]["field_0"]["value"] = "x".into();
        assert_eq!(judge(&shown), Shown::Altered);
        shown["scientificMetadata"].as_object_mut().unwrap().remove("field_0");
        assert_eq!(judge(&shown), Shown::Altered);
        assert_eq!(judge(&json!({"pid": "x"})), Shown::Unclear);
        assert_eq!(reader.judge(part, b""), Shown::Unclear);
    }

    #[test]
    fn invalid_settings_are_refused_with_an_example() {
        for (settings, part) in [
            (json!({}), "{dataset: {fields: 100}}"),
            (json!({"fields": 1, "field": 1}), "field"),
            (json!({"fields": 3001}), "up to 3000"),
        ] {
            let error = make(&settings, WorkloadContext { seed: 0, start_ms: 0 }).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
