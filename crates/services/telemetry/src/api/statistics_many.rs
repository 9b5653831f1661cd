//! Serves `POST /api/telemetry/stats`: statistics of several sensors and several intervals in one call.

use std::sync::Arc;

use axum::http::Method;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use plimsoll_service::{
    Answer, Call, Endpoint, Kind, Problem, Scope, Span, Takes, name,
    openapi::{body, responses},
    reply, timestamp,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::state::{Context, State};
use super::statistics::detail;
use super::window::{self, Window, WindowParams};
use crate::readings::{SensorStatistics, StatisticsQuery};

/// Reads statistics of several sensors.
pub struct StatisticsMany;

/// The largest number of concurrent lookups of sensors.
const LOOKS_MAX: usize = 8;
const FIELDS: [&str; 6] = ["sensors", "window", "from", "to", "interval", "detail"];

impl Endpoint<State> for StatisticsMany {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/api/telemetry/stats";
    const NAME: &'static str = "stats_many";
    const SCOPE: Option<Scope> = Some(crate::scopes::TELEMETRY_READ);
    const TAKES: Takes = Takes::Json;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let asked = read(&call.json()?, &context)?;
        let _running = context.state.queries.begin().await?;
        let memory = context.answers.reservation();
        let mut found = context.state.readings.statistics(&asked, &memory).await?;
        let unknown = unknown(&context, &found).await?;
        if unknown.len() == found.len() {
            let detail = "no reading of any of these sensors has been stored";
            return Err(Problem::new(Kind::NotFound, detail)
                .with_list("unknown", unknown.into_iter().map(Value::from).collect()));
        }
        found.retain(|it| !unknown.contains(&it.sensor));
        let parts = found.iter().map(|it| 1 + window::parts(&it.intervals)).sum();
        let sensors = found.into_iter().map(One).collect();
        reply::large_json(parts, memory, move || SensorsAnswer {
            from: asked.from_ms,
            to: asked.to_ms,
            sensors,
            unknown,
        })
        .await
    }

    fn describe() -> Value {
        json!({
            "summary": "Statistics of several sensors and intervals",
            "description": "As for one sensor. A sensor without readings in the window has no intervals; a sensor \
                            without any reading is listed under `unknown`. If all are unknown, the answer is 404.",
            "requestBody": body("StatisticsQuery"),
            "responses": responses(&[(200, "The statistics by sensor.", Some("ManyStatistics"))]),
        })
    }
}

/// The answer.
#[derive(Serialize)]
struct SensorsAnswer {
    from: i64,
    to: i64,
    sensors: Vec<One>,
    unknown: Vec<String>,
}

/// The answer for one sensor.
struct One(SensorStatistics);

impl Serialize for One {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut one = serializer.serialize_map(None)?;
        one.serialize_entry("sensorId", &self.0.sensor)?;
        one.serialize_entry("intervals", &window::Intervals(&self.0.intervals))?;
        one.end()
    }
}

/// The sensors without any reading.
async fn unknown(context: &Context, found: &[SensorStatistics]) -> Result<Vec<String>, Problem> {
    let silent = found.iter().filter(|it| it.intervals.is_empty());
    let looks = silent.map(|it| async {
        let known = context.state.readings.knows(&it.sensor).await?;
        Ok::<_, Problem>((!known).then(|| it.sensor.clone()))
    });
    let looks: Vec<_> = looks.map(FutureExt::boxed).collect();
    let answers: Vec<_> = stream::iter(looks).buffered(LOOKS_MAX).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}

fn read(json: &Value, context: &Context) -> Result<StatisticsQuery, Problem> {
    let fields = json.as_object().ok_or_else(|| {
        Problem::field("", "the query is a JSON object: {\"sensors\": […], \"window\": \"1h\"}")
    })?;
    if let Some(unknown) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        let shown: String = unknown.chars().take(64).collect();
        return Err(Problem::field(&shown, format!("is unknown; known are {}", FIELDS.join(", "))));
    }
    let params = WindowParams {
        window: span(fields, "window")?,
        from_ms: at(fields, "from")?,
        to_ms: at(fields, "to")?,
    };
    let Window { from_ms, to_ms } =
        Window::of(params, context.clock.now_ms(), context.state.limits.window_max)?;
    Ok(StatisticsQuery {
        sensors: sensors(fields, context.state.limits.sensors_max as usize)?,
        from_ms,
        to_ms,
        interval_ms: window::interval(span(fields, "interval")?)?,
        detail: detail(text(fields, "detail")?)?,
    })
}

fn sensors(fields: &Map<String, Value>, most: usize) -> Result<Vec<String>, Problem> {
    let fault = |reason: String| Problem::field("sensors", reason);
    let list = fields.get("sensors").and_then(Value::as_array);
    let list = list.filter(|list| (1..=most).contains(&list.len()));
    let list = list.ok_or_else(|| fault(format!("must be a list of 1 to {most} names")))?;
    let mut names: Vec<String> = Vec::with_capacity(list.len());
    for value in list {
        let name = value.as_str().ok_or_else(|| fault("each must be a string".into()))?;
        if let Some(reason) = name::fault(name, name::BYTES_MAX) {
            return Err(fault(reason));
        }
        names.push(name.to_owned());
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(fault("has a duplicate sensor".into()));
    }
    Ok(names)
}

fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, Problem> {
    let read = |value: &'a Value| value.as_str().ok_or_else(|| Problem::field(field, "must be a string"));
    fields.get(field).map(read).transpose()
}

fn span(fields: &Map<String, Value>, field: &str) -> Result<Option<Span>, Problem> {
    let read = |text: &str| text.parse::<Span>().map_err(|error| Problem::field(field, error.to_string()));
    text(fields, field)?.map(read).transpose()
}

fn at(fields: &Map<String, Value>, field: &str) -> Result<Option<i64>, Problem> {
    let fault = |reason: String| Problem::field(field, reason);
    match fields.get(field) {
        None => Ok(None),
        Some(Value::String(text)) => timestamp::parse(text).map(Some).map_err(fault),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| fault(timestamp::FORM.into())),
    }
}
