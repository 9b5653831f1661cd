//! Tabulates the scenario, the server, the machine and the phases.

use plimsoll_measure::environment::{ServerFacts, ServerKind};
use plimsoll_measure::run::{PhaseFacts, Run, WarmUp};

use super::{Cell, Table, Tone, left, right};
use crate::units::{NOT_REPORTED, bytes, counted_in, duration, exact, exact_rate, percentile, reported};

/// The scenario.
pub(crate) fn scenario(run: &Run) -> Table {
    let scenario = &run.scenario;
    Table::of_facts(
        "Scenario",
        vec![
            ("name", said(&scenario.name)),
            ("command", said(&run.command)),
            ("run", said(&run.id)),
            ("started", said(&run.started)),
            ("under load", Some(duration(run.duration_s).into())),
            ("collections", said(&scenario.collections.join(", "))),
            ("client", said(&scenario.client)),
            ("seed", Some(scenario.seed.to_string().into())),
            ("shard", said(&scenario.shard)),
            ("hash", said(&scenario.hash)),
        ],
    )
}

/// The server by its own description.
pub(crate) fn server(run: &Run) -> Table {
    let server = &run.server;
    let fact = |value: &Option<String>| Some(reported(value.clone(), |text| text).into());
    let mut facts = vec![
        ("server", Some(kind(server.kind).into())),
        ("address", said(&server.addresses.join(", "))),
        ("product", server.product.clone().map(Cell::from)),
        ("version", fact(&server.version)),
        ("topology", fact(&server.topology)),
        ("storage engine", fact(&server.storage_engine)),
        ("durability profile", server.profile.clone().map(Cell::from)),
        ("default write concern", fact(&server.default_write_concern)),
    ];
    facts.extend(server.parameters.iter().map(|(name, value)| (name.as_str(), said(value))));
    Table::of_facts("Server", facts)
}

/// The machine that the tool ran on.
pub(crate) fn environment(run: &Run) -> Table {
    let environment = &run.environment;
    let fact = |value: &Option<String>| Some(value.as_deref().unwrap_or("not known").into());
    let build = if environment.optimised { "optimised" } else { "not optimised" };
    Table::of_facts(
        "Machine",
        vec![
            ("CPU", fact(&environment.cpu)),
            ("cores", Some(exact(environment.cores.into()).into())),
            ("governor", fact(&environment.governor)),
            ("memory", fact(&environment.memory_bytes.map(bytes))),
            ("system", fact(&environment.os)),
            ("kernel", fact(&environment.kernel)),
            ("disk", fact(&environment.disk)),
            ("Plimsoll", Some(format!("{}, {build}", environment.plimsoll).into())),
        ],
    )
}

/// The phases in order.
pub(crate) fn phases(run: &Run) -> Table {
    let columns = vec![
        left("phase"),
        left("arrivals"),
        right("from"),
        right("to"),
        right(counted_in(run).0),
        right(counted_in(run).1),
        right("p50"),
        right("p99"),
        left("ended by"),
        left("steady state"),
        right("checkpoints"),
    ];
    let rows = run.phases.iter().map(phase).collect();
    Table { title: "Phases".to_owned(), columns, rows, flexible: 1 }
}

/// The figures of each phase, for a terminal.
pub(crate) fn phase_figures(run: &Run) -> Table {
    let columns = vec![
        left("phase"),
        right(counted_in(run).0),
        right(counted_in(run).1),
        right("p50"),
        right("p99"),
        right("max"),
        right("errors"),
    ];
    let row = |phase: &PhaseFacts| {
        let latency = &phase.response_ns;
        vec![
            Cell::toned(phase.name.as_str(), Tone::Strong),
            exact(phase.documents).into(),
            exact_rate(phase.documents_per_s).into(),
            percentile(latency.p50, latency).into(),
            percentile(latency.p99, latency).into(),
            percentile(latency.max, latency).into(),
            Cell::fault(phase.errors),
        ]
    };
    Table { title: "Phases".to_owned(), columns, rows: run.phases.iter().map(row).collect(), flexible: 0 }
}

fn phase(phase: &PhaseFacts) -> Vec<Cell> {
    let arrivals: Vec<_> =
        phase.arrivals.iter().map(|(load, arrivals)| format!("{load}: {arrivals}")).collect();
    let steady = match &phase.warm_up {
        WarmUp::NotAssessed => "not assessed".to_owned(),
        WarmUp::Steady { from_s } => format!("from {} on", duration(*from_s)),
        WarmUp::NotSteady { reason } => format!("none: {reason}"),
    };
    vec![
        Cell::toned(phase.name.as_str(), Tone::Strong),
        arrivals.join("; ").into(),
        duration(phase.from_s).into(),
        duration(phase.to_s).into(),
        exact(phase.documents).into(),
        exact_rate(phase.documents_per_s).into(),
        percentile(phase.response_ns.p50, &phase.response_ns).into(),
        percentile(phase.response_ns.p99, &phase.response_ns).into(),
        phase.ended_by.as_str().into(),
        steady.into(),
        phase.checkpoints.map_or_else(|| NOT_REPORTED.to_owned(), exact).into(),
    ]
}

/// The server in a few words: `embedded 1.2.3, standalone, wiredTiger`.
pub(crate) fn server_in_words(server: &ServerFacts) -> String {
    let name = match (&server.product, &server.version) {
        (Some(product), _) => product.clone(),
        (None, Some(version)) => format!("{} {version}", short_kind(server.kind)),
        (None, None) => short_kind(server.kind).to_owned(),
    };
    let more = [&server.topology, &server.storage_engine];
    std::iter::once(name).chain(more.into_iter().flatten().cloned()).collect::<Vec<_>>().join(", ")
}

fn kind(kind: ServerKind) -> &'static str {
    match kind {
        ServerKind::Embedded => "embedded server",
        ServerKind::Mongod => "mongod, started by Plimsoll",
        ServerKind::Address => "server at its address",
        ServerKind::Service => "service at its address",
        ServerKind::Null => "null server",
        ServerKind::Faulty => "faulty server",
    }
}

fn short_kind(kind: ServerKind) -> &'static str {
    match kind {
        ServerKind::Embedded => "embedded server",
        ServerKind::Mongod => "mongod",
        ServerKind::Address => "server",
        ServerKind::Service => "service",
        ServerKind::Null => "null server",
        ServerKind::Faulty => "faulty server",
    }
}

fn said(text: &str) -> Option<Cell> {
    (!text.is_empty()).then(|| text.into())
}
