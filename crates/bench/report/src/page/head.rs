//! Renders the top of the page: identity, verdict, headline figures and conclusions.

use maud::{Markup, html};
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::integrity::Proof;
use plimsoll_measure::line::{Candidate, Line};
use plimsoll_measure::run::{Operation, Run};

use super::table::tone;
use super::{brand, conclusions};
use crate::derived::{
    NEAR, doubt, estimated_interval, interval, is_client_limited, is_estimate, median, objective, probes_at,
    probes_within, tail,
};
use crate::prose::{glued, joined};
use crate::tables::{self, server_in_words};
use crate::units::{
    Quantile, counted, counted_in, duration, exact, exact_rate, named_percentile, p99_with_failures, percent,
    percentile, sent_in, three_digits,
};

/// The number of operations that get a separate figure.
const OPERATIONS_MAX: usize = 3;

/// A figure of the headline.
struct Tile {
    name: String,
    value: String,
    unit: String,
    note: String,
    kind: &'static str,
}

impl Tile {
    /// A figure without a unit, of no special kind.
    fn new(name: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), unit: String::new(), note: note.into(), kind: "" }
    }
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
    let (word, colour) = tables::run_word(run);
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
    let headline = Tile { unit, kind: "line", ..Tile::new("The load line", value, line_note(line)) };
    let latency = if is_estimate(line) { near_the_line(line) } else { at_the_line(line) };
    [Some(headline), latency, bottleneck(line)].into_iter().flatten().collect()
}

/// The interval and the objective of the load line.
fn line_note(line: &Line) -> String {
    let objective = objective(line);
    let note = match (line.rate, line.high) {
        (Some(_), Some(_)) => format!("{}, while {objective}", ends(line)),
        (Some(_), None) => format!("a lower bound: every tried rate held {objective}"),
        (None, _) => format!("no rate held {objective}"),
    };
    doubt(line).map(|doubt| format!("{doubt}; {note}")).unwrap_or(note)
}

/// The ends of the interval; an older file has no confidence.
fn ends(line: &Line) -> String {
    let older = || format!("between {}", interval(line).unwrap_or_default().replace(" to ", " and "));
    estimated_interval(line).unwrap_or_else(older)
}

/// The bottleneck, or a note that none was found. Nothing if no rate failed.
fn bottleneck(line: &Line) -> Option<Tile> {
    line.rate.and(line.high)?;
    let evidence = |it: &Candidate| match line.bottlenecks.len() {
        1 => it.evidence.clone(),
        _ => format!("{}: {}", it.name, it.evidence),
    };
    let (value, note) = match (line.bottlenecks.as_slice(), line.unchecked.as_slice()) {
        ([], []) => ("not found".to_owned(), "nothing departed from its baseline".to_owned()),
        ([], unchecked) => (
            "not found".to_owned(),
            format!("not checked: {}", joined(unchecked, ", ", |it| it.name.clone())),
        ),
        (found, _) => (joined(found, ", ", |it| it.name.clone()), joined(found, "; ", evidence)),
    };
    Some(Tile { kind: "broad", ..Tile::new("Bottleneck", value, note) })
}

/// For an older file, the response time of the last trial at the rate of the load line.
fn at_the_line(line: &Line) -> Option<Tile> {
    let response = &probes_at(line, line.rate?).next_back()?.response_ns;
    let [p50, p99, max] = [response.p50, response.p99, response.max].map(|ns| percentile(ns, response));
    Some(Tile::new("p99 response at the line", p99, format!("median {p50}, longest {max}")))
}

/// The median response times of the trials near the load line, because no trial has exactly that rate.
fn near_the_line(line: &Line) -> Option<Tile> {
    let near: Vec<_> = probes_within(line, line.rate?, NEAR).map(|probe| &probe.response_ns).collect();
    let (first, tail) = (near.first()?, tail(line));
    let [p50, high] = [|it: &Latency| it.p50, tail.of]
        .map(|of| percentile(median(near.iter().filter_map(|latency| of(latency))), first));
    let max = percentile(near.iter().filter_map(|latency| latency.max).max(), first);
    let trials = counted(near.len() as u64, "trial");
    let note = format!("median {p50}, longest {max}, in {trials} within {}", percent(NEAR));
    Some(Tile::new(format!("{} response near the line", tail.name), high, note))
}

fn operation_tile(name: &str, operation: &Operation, run: &Run) -> Tile {
    let response = &operation.response_ns;
    let (rate, unit) = match operation.documents {
        0 => (operation.rate_per_s, sent_in(run).rate),
        _ => (operation.documents_per_s, counted_in(run).1),
    };
    let [p50, p99] =
        [Quantile::P50, Quantile::P99].map(|it| named_percentile(it, response, sent_in(run).many));
    let note = format!("response {p50}, {p99}{}", p99_with_failures(operation));
    Tile { unit: unit.to_owned(), ..Tile::new(name, exact_rate(rate), note) }
}

fn integrity_tile(run: &Run) -> Option<Tile> {
    let integrity = run.integrity.as_ref()?;
    let acknowledged = format!("of {} acknowledged documents", exact(integrity.acknowledged));
    let reason = || integrity.reason.clone().unwrap_or_default();
    let tile = |value: &str, note: String, kind| Tile { kind, ..Tile::new("Integrity", value, note) };
    Some(match integrity.proof {
        Proof::Proven if integrity.holds() => tile("0 lost", acknowledged, "good"),
        Proof::ReadBack if integrity.holds() && integrity.not_audited == 0 => {
            tile("0 lost", acknowledged, "good")
        }
        Proof::Proven | Proof::ReadBack | Proof::Counted | Proof::NotAudited if integrity.lost > 0 => {
            tile(&format!("{} lost", exact(integrity.lost)), acknowledged, "bad")
        }
        Proof::ReadBack if integrity.holds() => tile("partly read back", reason(), ""),
        Proof::Proven | Proof::ReadBack => tile("broken", "see the conclusions".to_owned(), "bad"),
        Proof::Counted => tile("counted", "not proven".to_owned(), ""),
        Proof::FireAndForget => tile("nothing promised", "fire and forget".to_owned(), ""),
        Proof::NotApplicable => tile("not applicable", reason(), ""),
        Proof::NotAudited => tile("not audited", reason(), ""),
    })
}

fn headroom_tile(run: &Run) -> Option<Tile> {
    let (note, kind) = match is_client_limited(&run.client) {
        true => ("client-limited: the tool may be the limit", "bad"),
        false => ("the tool's ceiling ÷ its throughput", ""),
    };
    let tile = Tile::new("Headroom", three_digits(run.client.headroom?), note);
    Some(Tile { unit: "times".to_owned(), kind, ..tile })
}
