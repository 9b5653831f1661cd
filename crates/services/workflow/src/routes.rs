//! Lists the endpoints and the pages, and describes them.

use plimsoll_service::{About, Clock, Routes, Service};

use crate::api::state::State;
use crate::api::{
    act, audit, cancel, dead_letters, definition, definitions, deploy, explanation, instance, instances,
    redrive, retry, schemas, signal, start, tasks, wait,
};
use crate::{pages, scopes};

/// Makes the service of a state.
pub fn service(state: State, clock: Clock) -> Service<State> {
    Service::new(about(), routes(), state, clock)
}

fn about() -> About {
    About {
        name: "workflow",
        title: "Durable workflows",
        version: env!("CARGO_PKG_VERSION"),
        description: "Instances of workflows, their signals and tasks. An answer 200 or 201 to a PUT means that the request is durable; the same \
                      request again changes nothing. Moments are milliseconds since 1970 (UTC). A refused request is answered with a problem \
                      (RFC 9457).",
        metrics_prefix: "plimsoll_workflow",
        scopes: scopes::ALL,
        schemas: schemas::schemas(),
    }
}

fn routes() -> Routes<State> {
    Routes::new()
        .with::<deploy::Deploy>()
        .with::<definitions::Definitions>()
        .with::<definition::OneDefinition>()
        .with::<start::Start>()
        .with::<instances::Instances>()
        .with::<instance::OneInstance>()
        .with::<wait::Wait>()
        .with::<explanation::Explain>()
        .with::<signal::SendSignal>()
        .with::<cancel::Cancel>()
        .with::<retry::Retry>()
        .with::<dead_letters::DeadLetters>()
        .with::<redrive::RedriveLetter>()
        .with::<audit::Audit>()
        .with::<tasks::Tasks>()
        .with::<act::ActOnTask>()
        .with::<pages::list::ListPage>()
        .with::<pages::instance::InstancePage>()
        .with::<pages::style::Style>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_every_endpoint_with_its_scope_and_only_known_schemas() {
        let document = plimsoll_service::document(&about(), routes());
        let mut scoped = 0;
        for (path, methods) in document["paths"].as_object().unwrap() {
            for operation in methods.as_object().unwrap().values() {
                assert!(operation["summary"].is_string(), "{path}");
                scoped += usize::from(operation["security"].is_array());
            }
        }
        assert_eq!(scoped, 18);
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name} is unknown");
        }
    }
}
