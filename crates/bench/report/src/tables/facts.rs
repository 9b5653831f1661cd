//! Tabulates the scenario, the server, the machine and the phases.

use plimsoll_measure::environment::{ServerFacts, ServerKind};
use plimsoll_measure::run::{Run, WarmUp};

use super::{Cell, Table};
use crate::units::{bytes, counted_in, duration, exact, exact_rate, percentile, reported};

/// The facts of the scenario and of its run.
pub(crate) fn scenario(run: &Run) -> Table {
    let scenario = &run.scenario;
    Table::of_facts(
        "Scenario",
        vec![
            ("name", filled(&scenario.name)),
            ("command", filled(&run.command)),
            ("run", filled(&run.id)),
            ("started", filled(&run.started)),
            ("under load", Some(duration(run.duration_s).into())),
            ("collections", filled(&scenario.collections.join(", "))),
            ("client", filled(&scenario.client)),
            ("seed", Some(scenario.seed.to_string().into())),
            ("shard", filled(&scenario.shard)),
            ("hash", filled(&scenario.hash)),
        ],
    )
}

/// The server by its own description.
pub(crate) fn server(run: &Run) -> Table {
    let server = &run.server;
    let fact = |value: &Option<String>| Some(reported(value.clone(), |text| text).into());
    let mut facts = vec![
        ("server", Some(kind(server.kind).into())),
        ("address", filled(&server.addresses.join(", "))),
        ("product", server.product.clone().map(Cell::from)),
        ("version", fact(&server.version)),
        ("topology", fact(&server.topology)),
        ("storage engine", fact(&server.storage_engine)),
        ("durability profile", server.profile.clone().map(Cell::from)),
        ("default write concern", fact(&server.default_write_concern)),
    ];
    facts.extend(server.parameters.iter().map(|(name, value)| (name.as_str(), filled(value))));
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
    Table::of("Phases", &run.phases)
        .left("phase", |it| Cell::strong(&it.name))
        .left("arrivals", |it| {
            it.arrivals.iter().map(|(load, how)| format!("{load}: {how}")).collect::<Vec<_>>().join("; ")
        })
        .flexible()
        .right("from", |it| duration(it.from_s))
        .right("to", |it| duration(it.to_s))
        .right(counted_in(run).0, |it| exact(it.documents))
        .right(counted_in(run).1, |it| exact_rate(it.documents_per_s))
        .right("p50", |it| percentile(it.response_ns.p50, &it.response_ns))
        .right("p99", |it| percentile(it.response_ns.p99, &it.response_ns))
        .left("ended by", |it| &it.ended_by)
        .left("steady state", |it| match &it.warm_up {
            WarmUp::NotAssessed => "not assessed".to_owned(),
            WarmUp::Steady { from_s } => format!("from {} on", duration(*from_s)),
            WarmUp::NotSteady { reason } => format!("none: {reason}"),
        })
        .right("checkpoints", |it| reported(it.checkpoints, exact))
        .table()
}

/// The figures of each phase, for a terminal.
pub(crate) fn phase_figures(run: &Run) -> Table {
    Table::of("Phases", &run.phases)
        .left("phase", |it| Cell::strong(&it.name))
        .right(counted_in(run).0, |it| exact(it.documents))
        .right(counted_in(run).1, |it| exact_rate(it.documents_per_s))
        .latencies(|it| &it.response_ns)
        .right("errors", |it| Cell::fault(it.errors))
        .table()
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
        ServerKind::Mongod => "mongod, started by Plimsoll",
        ServerKind::Address => "server at its address",
        ServerKind::Service => "service at its address",
        other => short_kind(other),
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

fn filled(text: &str) -> Option<Cell> {
    (!text.is_empty()).then(|| text.into())
}
