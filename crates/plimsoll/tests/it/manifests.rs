//! Tests that the manifests for Kubernetes name the ports, paths, flags and files of the program.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::program::{plimsoll_with, shared};
use crate::service::Service;

const MANIFESTS: &str = include_str!("../../../../deploy/catalogue.yaml");
/// The directory of the settings in the container.
const MOUNTED: &str = "/etc/plimsoll";

fn manifest(kind: &str) -> Value {
    let all = MANIFESTS.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    let mut found: Vec<Value> = all.filter(|it| it["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    found.remove(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn container() -> Value {
    manifest("Deployment")["spec"]["template"]["spec"]["containers"][0].clone()
}

fn settings() -> String {
    text(&manifest("ConfigMap")["data"]["catalogue.yaml"]).to_owned()
}

/// The arguments of the container with the settings in another directory and another server.
fn arguments(directory: &Path, server: &str) -> Vec<String> {
    let args = container()["args"].as_array().unwrap().clone();
    let local =
        |it: &Value| text(it).replace(MOUNTED, directory.to_str().unwrap()).replace("$(MONGODB_URI)", server);
    args.iter().map(local).collect()
}

/// Writes the files that the volume of the pod holds.
fn mounted(directory: &Path) {
    let volumes = manifest("Deployment")["spec"]["template"]["spec"]["volumes"].clone();
    let sources = volumes[0]["projected"]["sources"].as_array().unwrap().clone();
    assert_eq!(sources[0]["configMap"]["name"], manifest("ConfigMap")["metadata"]["name"]);
    fs::write(directory.join("catalogue.yaml"), settings()).unwrap();
    for item in sources[1]["secret"]["items"].as_array().unwrap() {
        let content = match text(&item["key"]) {
            "accounts.json" => r#"[{"username": "admin", "password": "p", "role": "admin"}]"#.to_owned(),
            "token-secret" => "5".repeat(64),
            other => panic!("{other}"),
        };
        fs::write(directory.join(text(&item["path"])), content).unwrap();
    }
}

/// The port that the settings listen on.
fn port() -> u64 {
    let directory = tempfile::tempdir().unwrap();
    mounted(directory.path());
    let mut args = arguments(directory.path(), "mongodb://localhost/");
    args.push("--print-settings".into());
    let output: Output = plimsoll_with(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_saphyr::from_str(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let (address, port) = text(&printed["listen"]).rsplit_once(':').unwrap();
    assert_eq!(address, "0.0.0.0", "a pod is reached from outside");
    port.parse().unwrap()
}

#[test]
fn the_ports_of_the_manifests_are_those_of_the_settings() {
    let (port, container) = (port(), container());
    assert_eq!(container["ports"][0]["containerPort"], port);
    let name = &container["ports"][0]["name"];
    let service = manifest("Service");
    assert_eq!(&service["spec"]["ports"][0]["targetPort"], name);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(&container[probe]["httpGet"]["port"], name, "{probe}");
    }
    let pod = &manifest("Deployment")["spec"]["template"];
    assert_eq!(text(&pod["metadata"]["annotations"]["prometheus.io/port"]), port.to_string());
}

#[test]
fn the_container_starts_and_answers_at_every_path_of_the_manifests() {
    let directory = tempfile::tempdir().unwrap();
    mounted(directory.path());
    let args = arguments(directory.path(), &shared());
    assert_eq!(container()["command"][0], "plimsoll");
    assert_eq!(args[..2], ["serve", "catalogue"]);
    let more = ["--set", "database.name=catalogue_manifests"];
    let args: Vec<&str> = args[2..].iter().map(String::as_str).chain(more).collect();
    let service = Service::at("0.0.0.0:0", "catalogue", &args);
    let (container, pod) = (container(), manifest("Deployment")["spec"]["template"].clone());
    let probes =
        ["startupProbe", "livenessProbe", "readinessProbe"].map(|probe| &container[probe]["httpGet"]["path"]);
    for path in probes.into_iter().chain([&pod["metadata"]["annotations"]["prometheus.io/path"]]) {
        assert_eq!(service.client().send("GET", text(path), "").unwrap().0, 200, "{path}");
    }
}

#[test]
fn the_manifests_name_each_other() {
    let deployment = manifest("Deployment");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&manifest("Service")["spec"]["selector"], labels);
    assert_eq!(&manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], labels);
    let scaler = manifest("HorizontalPodAutoscaler")["spec"].clone();
    for name in ["apiVersion", "kind"] {
        assert_eq!(scaler["scaleTargetRef"][name], deployment[name], "{name}");
    }
    assert_eq!(scaler["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    assert!(scaler["minReplicas"].as_u64().unwrap() < scaler["maxReplicas"].as_u64().unwrap());
    assert!(deployment["spec"].get("replicas").is_none(), "the autoscaler sets the number of instances");
    let mounts = container()["volumeMounts"].clone();
    assert_eq!(mounts[0]["mountPath"], MOUNTED);
}
