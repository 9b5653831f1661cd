//! Renders the top of the page: identity, verdict, headline figures and conclusions.

use maud::{Markup, html};
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::integrity::Proof;
use plimsoll_measure::line::{Line, Probe, Suspect};
use plimsoll_measure::run::Run;

use super::table::tone;
use super::{brand, conclusions};
use crate::derived::{doubt, interval, is_client_limited, objective, probes_at};
use crate::prose::glued;
use crate::tables::{self, server_in_words};
use crate::units::{counted_in, duration, exact, exact_rate, percentile, sent_in, three_digits};

/// Operations that get a figure of their own.
const OPERATIONS_MAX: usize = 3;

/// A figure of the headline.
struct Tile {
    value: String,
    unit: String,
    name: String,
    note: String,
    kind: &'static str,
}

/// Title, verdict, headline and conclusions.
pub(super) fn head(run: &Run) -> Markup {
    html! {
        header {
            (brand())
            h1 { (run.scenario.title) }
            p.meta {
                (run.scenario.name) " · " (run.started) " · " (glued(&duration(run.duration_s))) " under load · "
                (server_in_words(&run.server)) " · " code { "run\u{a0}" (run.id) }
            }
            (verdict(run))
        }
        @let (lines, others): (Vec<_>, Vec<_>) = tiles(run).into_iter().partition(|tile| tile.kind == "line");
        @for tile in lines { (shown(&tile)) }
        div.tiles { @for tile in others { (shown(&tile)) } }
        (conclusions(&run.conclusions))
    }
}

fn verdict(run: &Run) -> Markup {
    let (word, colour) = tables::verdict_word(run.verdict);
    html! {
        p.verdict {
            strong class=[tone(colour)] { (word) }
            @for reason in &run.reasons { span { (reason) } }
        }
    }
}

fn shown(tile: &Tile) -> Markup {
    html! {
        div class={ "tile " (tile.kind) } {
            div.name { (tile.name) }
            div.value { (tile.value) @if !tile.unit.is_empty() { " " span.unit { (tile.unit) } } }
            div.note { (glued(&tile.note)) }
        }
    }
}

fn tiles(run: &Run) -> Vec<Tile> {
    let mut tiles = match &run.line {
        Some(line) => line_tiles(line),
        None => {
            let first = run.operations.iter().take(OPERATIONS_MAX);
            first.map(|(name, operation)| operation_tile(name, operation, run)).collect()
        }
    };
    tiles.extend(integrity_tile(run));
    tiles.extend(headroom_tile(run));
    tiles
}

fn line_tiles(line: &Line) -> Vec<Tile> {
    let value = line.rate.map_or_else(|| "none found".to_owned(), exact_rate);
    let unit = line.rate.map(|_| line.unit.clone()).unwrap_or_default();
    let interval = interval(line).map(|interval| format!("between {}, ", interval.replace(" to ", " and ")));
    let note = match (line.rate, line.high) {
        (Some(_), Some(_)) => format!("{}while {}", interval.unwrap_or_default(), objective(line)),
        (Some(_), None) => format!("at least, while {}; no rate failed", objective(line)),
        (None, _) => format!("no rate held {}", objective(line)),
    };
    let note = match doubt(line) {
        Some(doubt) => format!("{doubt}; {note}"),
        None => note,
    };
    let headline = Tile { value, unit, name: "The load line".to_owned(), note, kind: "line" };
    let latency = at_the_line(line).map(|probe| latency_tile("at the line", &probe.response_ns));
    [Some(headline), latency, bottleneck(line)].into_iter().flatten().collect()
}

/// The bottleneck, or that none was found. Nothing if no rate failed.
fn bottleneck(line: &Line) -> Option<Tile> {
    line.rate.and(line.high)?;
    let names: Vec<_> = line.bottlenecks.iter().map(|suspect| suspect.name.as_str()).collect();
    let evidence = |suspect: &Suspect| match names.len() {
        1 => suspect.evidence.clone(),
        _ => format!("{}: {}", suspect.name, suspect.evidence),
    };
    let evidence: Vec<_> = line.bottlenecks.iter().map(evidence).collect();
    let unseen: Vec<_> = line.not_seen.iter().map(|it| it.name.as_str()).collect();
    let (value, note) = match (names.as_slice(), unseen.as_slice()) {
        ([], []) => ("not found".to_owned(), "nothing departed from its baseline".to_owned()),
        ([], unseen) => ("not found".to_owned(), format!("not checked: {}", unseen.join(", "))),
        (names, _) => (names.join(", "), evidence.join("; ")),
    };
    Some(Tile { value, unit: String::new(), name: "Bottleneck".to_owned(), note, kind: "broad" })
}

/// The last trial of the load line's own rate.
fn at_the_line(line: &Line) -> Option<&Probe> {
    probes_at(line, line.rate?).next_back()
}

fn latency_tile(place: &str, response: &Latency) -> Tile {
    let [p50, max] = [response.p50, response.max].map(|ns| percentile(ns, response));
    Tile {
        value: percentile(response.p99, response),
        unit: String::new(),
        name: format!("p99 response {place}"),
        note: format!("median {p50}, longest {max}"),
        kind: "",
    }
}

fn operation_tile(name: &str, operation: &plimsoll_measure::run::Operation, run: &Run) -> Tile {
    let response = &operation.response_ns;
    let (rate, unit) = match operation.documents {
        0 => (operation.rate_per_s, sent_in(run).rate),
        _ => (operation.documents_per_s, counted_in(run).1),
    };
    let [p50, p99] = [response.p50, response.p99].map(|ns| percentile(ns, response));
    Tile {
        value: exact_rate(rate),
        unit: unit.to_owned(),
        name: name.to_owned(),
        note: format!("response p50 {p50}, p99 {p99}"),
        kind: "",
    }
}

fn integrity_tile(run: &Run) -> Option<Tile> {
    let integrity = run.integrity.as_ref()?;
    let acknowledged = format!("of {} acknowledged documents", exact(integrity.acknowledged));
    let (value, note, kind) = match integrity.proof {
        Proof::Proven if integrity.holds() => ("0 lost".to_owned(), acknowledged, "good"),
        Proof::Proven | Proof::Counted if integrity.lost > 0 => {
            (format!("{} lost", exact(integrity.lost)), acknowledged, "bad")
        }
        Proof::Proven => {
            ("broken".to_owned(), "phantom, duplicated or corrupted documents".to_owned(), "bad")
        }
        Proof::Counted => ("counted".to_owned(), "not proven".to_owned(), ""),
        Proof::FireAndForget => ("nothing promised".to_owned(), "fire and forget".to_owned(), ""),
        Proof::NotApplicable => {
            ("not applicable".to_owned(), integrity.reason.clone().unwrap_or_default(), "")
        }
        Proof::NotAudited => ("not audited".to_owned(), integrity.reason.clone().unwrap_or_default(), ""),
    };
    Some(Tile { value, unit: String::new(), name: "Integrity".to_owned(), note, kind })
}

fn headroom_tile(run: &Run) -> Option<Tile> {
    let headroom = run.client.headroom?;
    let limited = is_client_limited(&run.client);
    let note = if limited {
        "client-limited: the tool may be the limit"
    } else {
        "what the tool can do ÷ what it did"
    };
    Some(Tile {
        value: three_digits(headroom),
        unit: "times".to_owned(),
        name: "Headroom".to_owned(),
        note: note.to_owned(),
        kind: if limited { "bad" } else { "" },
    })
}
