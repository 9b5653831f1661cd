//! Serves `GET /api/telemetry/stats/{sensor}`: statistics of one sensor in a window of time.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::{
    Answer, Call, Endpoint, Kind, Problem, Scope, Takes,
    openapi::{in_path, in_query, responses},
    reply,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::state::{Context, State};
use super::window::{self, Window, WindowParams};
use crate::readings::{Detail, IntervalStatistics, StatisticsQuery};

/// Reads statistics of one sensor.
pub struct Statistics;

impl Endpoint<State> for Statistics {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/telemetry/stats/{sensor}";
    const NAME: &'static str = "stats";
    const SCOPE: Option<Scope> = Some(crate::scopes::TELEMETRY_READ);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let sensor = call.name("sensor")?;
        let query = call.query(&["window", "from", "to", "interval", "detail"])?;
        let params = WindowParams {
            window: query.span("window")?,
            from_ms: query.timestamp("from")?,
            to_ms: query.timestamp("to")?,
        };
        let Window { from_ms, to_ms } =
            Window::of(params, context.clock.now_ms(), context.state.limits.window_max)?;
        let interval_ms = window::interval(query.span("interval")?)?;
        let detail = detail(query.get("detail"))?;
        let sensors = vec![sensor.to_owned()];
        let asked = StatisticsQuery { sensors, from_ms, to_ms, interval_ms, detail };
        let _running = context.state.queries.begin().await?;
        let memory = context.answers.reservation();
        let found = context.state.readings.statistics(&asked, &memory).await?;
        let intervals = found.into_iter().next().map_or_else(Vec::new, |it| it.intervals);
        if intervals.is_empty() {
            known(&context, sensor).await?;
        }
        let (parts, sensor) = (window::parts(&intervals), sensor.to_owned());
        reply::large_json(parts, memory, move || SensorAnswer { sensor, asked, intervals }).await
    }

    fn describe() -> Value {
        let mut parameters = vec![in_path("sensor", "The sensor.")];
        parameters.extend(window::parameters());
        parameters.push(in_query(
            "interval",
            "The length of intervals, as 5m; by default the window is one interval.",
        ));
        parameters.push(in_query(
            "detail",
            "`percentiles` (default), or `summary` without them, which is cheaper.",
        ));
        json!({
            "summary": "Statistics of one sensor",
            "description": "Count, minimum, maximum, mean and exact percentiles (nearest rank) of each metric. Late readings \
                            and those out of order count like any other.",
            "parameters": parameters,
            "responses": responses(&[(200, "The statistics.", Some("SensorStatistics"))]),
        })
    }
}

/// The answer, with intervals on request.
struct SensorAnswer {
    sensor: String,
    asked: StatisticsQuery,
    intervals: Vec<IntervalStatistics>,
}

impl Serialize for SensorAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut answer = serializer.serialize_map(None)?;
        answer.serialize_entry("sensorId", &self.sensor)?;
        answer.serialize_entry("from", &self.asked.from_ms)?;
        answer.serialize_entry("to", &self.asked.to_ms)?;
        if self.asked.interval_ms.is_some() {
            answer.serialize_entry("intervals", &window::Intervals(&self.intervals))?;
        } else {
            let metrics = self.intervals.first().map_or(&[][..], |it| &it.metrics);
            answer.serialize_entry("metrics", &window::Metrics(metrics))?;
        }
        answer.end()
    }
}

/// Parses the parameter `detail`.
pub(super) fn detail(text: Option<&str>) -> Result<Detail, Problem> {
    match text {
        None | Some("percentiles") => Ok(Detail::Percentiles),
        Some("summary") => Ok(Detail::Summary),
        Some(_) => Err(Problem::field("detail", "must be percentiles or summary")),
    }
}

/// Fails with 404 for a sensor without any reading.
pub(super) async fn known(context: &Context, sensor: &str) -> Result<(), Problem> {
    match context.state.readings.knows(sensor).await? {
        true => Ok(()),
        false => Err(Problem::new(Kind::NotFound, "no reading of this sensor has been stored")),
    }
}
