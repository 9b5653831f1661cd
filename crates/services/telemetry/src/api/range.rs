//! Serves `GET /api/telemetry/{sensor}`: readings of a sensor in order of time, page by page.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::{
    Answer, Call, Endpoint, Kind, Scope, Span, Takes,
    openapi::{count_in_query, in_path, in_query, responses},
    reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};
use super::statistics::known;
use super::window::{self, Window, WindowParams};
use crate::reading::Reading;
use crate::readings::{Cursor, RangeQuery};

/// Reads readings.
pub struct Range;

/// The default number of readings on a page.
const LIMIT: u32 = 100;
/// The memory of an answer, as a multiple of its readings: the readings themselves, their JSON trees and the
/// text.
const COPIES: usize = 4;
/// The window is unlimited, because the cost of a page does not depend on it.
const LONGEST: Span = Span::millis(u64::MAX);

impl Endpoint<State> for Range {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/telemetry/{sensor}";
    const NAME: &'static str = "range";
    const SCOPE: Option<Scope> = Some(crate::scopes::TELEMETRY_READ);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let sensor = call.name("sensor")?;
        let query = call.query(&["window", "from", "to", "limit", "cursor"])?;
        let params = WindowParams {
            window: query.span("window")?,
            from_ms: query.timestamp("from")?,
            to_ms: query.timestamp("to")?,
        };
        let Window { from_ms, to_ms } = Window::of(params, context.clock.now_ms(), LONGEST)?;
        let after: Option<Cursor> = query.parsed("cursor")?;
        let first = after.is_none();
        let limit = query.count("limit", LIMIT, context.state.limits.page_max)? as usize;
        let asked = RangeQuery { sensor: sensor.to_owned(), from_ms, to_ms, after, limit };
        let _running = context.state.queries.begin().await?;
        let page = context.state.readings.range(&asked).await?;
        if first && page.readings.is_empty() {
            known(&context, sensor).await?;
        }
        let memory = context.answers.reservation();
        memory.grow(COPIES * page.readings.iter().map(Reading::bytes).sum::<usize>())?;
        let sensor = sensor.to_owned();
        reply::large_json(page.readings.len(), memory, move || {
            let readings: Vec<Value> = page.readings.iter().map(Reading::to_json).collect();
            let next = page.next.map(|next| next.to_string());
            json!({"sensorId": sensor, "from": from_ms, "to": to_ms, "readings": readings, "next": next})
        })
        .await
    }

    fn describe() -> Value {
        let mut parameters = vec![in_path("sensor", "The sensor.")];
        parameters.extend(window::parameters());
        parameters.push(count_in_query("limit", "The maximum number of readings on the page.", LIMIT));
        parameters.push(in_query(
            "cursor",
            "`next` of the previous page, with its `from` and `to`. Readings added to a read page are not returned.",
        ));
        json!({
            "summary": "Readings of a sensor in order of time",
            "parameters": parameters,
            "responses": responses(&[(200, "A page.", Some("ReadingsPage"))]),
        })
    }
}
