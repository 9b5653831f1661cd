//! Fills the database of a service that is started for a run.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_telemetry::settings::Settings;
use plimsoll_telemetry::workload::{Fill, fill as store};

use crate::exit::{Deserves, Exit, Outcome};
use crate::scenario::{self, Staging};
use crate::system::Start;
use crate::terminal::say;

/// Another line says how far it is after so many readings.
const TELL_EVERY: u64 = 500_000;
/// How often a wish to stop is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Bounds of what is filled in.
const SENSORS_MAX: u64 = 10_000_000;
const READINGS_MAX: u64 = 1_000_000_000;
const USERS_MAX: u64 = 1_000_000;
const FOLLOWS_MAX: u64 = 1_000;
const ACTIVITIES_MAX: u64 = 10_000;

/// Stores what a service has stored before the load; says what, if there is anything.
///
/// # Errors
/// What the database refuses, or the user's wish to stop.
pub fn fill(start: Start<'_>, uri: &str) -> Outcome<Option<String>> {
    let Staging::Telemetry(telemetry) = start.staging;
    let Some(wanted) = &telemetry.fill else { return Ok(None) };
    let mut settings = telemetry.settings.clone();
    uri.clone_into(&mut settings.database.uri);
    let settings = settings.build(Path::new(".")).context("service.telemetry.settings")?;
    let wanted = meant(wanted, start.seed)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let filled = runtime.block_on(async {
        tokio::select! {
            filled = pour(&settings, &wanted, start.quiet) => Some(filled),
            () = stopped(start.control) => None,
        }
    });
    filled
        .ok_or_else(|| {
            anyhow::anyhow!(
                "it was interrupted while the service's database was filled: there is nothing to keep"
            )
        })
        .deserves(Exit::Interrupted)?
        .deserves(Exit::Server)?;
    Ok(Some(format!(
        "{} readings of {} sensors, and {} activities of {} users",
        wanted.sensors * wanted.ticks,
        wanted.sensors,
        wanted.users * wanted.activities,
        wanted.users
    )))
}

/// Settings and filling that cannot be meant are refused before anything is started.
///
/// # Errors
/// What is wrong, with its place.
pub fn check(staging: &Staging) -> anyhow::Result<()> {
    let Staging::Telemetry(telemetry) = staging;
    telemetry.settings.clone().build(Path::new(".")).context("service.telemetry.settings")?;
    telemetry.fill.as_ref().map_or(Ok(()), |fill| meant(fill, 0).map(drop))
}

async fn stopped(control: &Control) {
    while !control.is_stopped() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn pour(settings: &Settings, wanted: &Fill, quiet: bool) -> anyhow::Result<()> {
    let mut next = TELL_EVERY;
    let tell = |progress: plimsoll_telemetry::workload::Progress| {
        if !quiet && progress.done >= next {
            next = progress.done + TELL_EVERY;
            say(&format!("filling in: {} of {} readings", progress.done, progress.total));
        }
    };
    store(settings, wanted, tell).await.context("fill the service's database")
}

fn meant(fill: &scenario::Fill, seed: u64) -> anyhow::Result<Fill> {
    let (over_ms, every_ms) = (fill.over.as_ns() / 1_000_000, fill.every.as_ns() / 1_000_000);
    anyhow::ensure!(every_ms > 0, "service.telemetry.fill.every: give at least 1ms");
    for (key, number, most) in [
        ("sensors", fill.sensors, SENSORS_MAX),
        ("users", fill.users, USERS_MAX),
        ("follows", fill.follows, FOLLOWS_MAX),
        ("activities", fill.activities, ACTIVITIES_MAX),
    ] {
        anyhow::ensure!(number <= most, "service.telemetry.fill.{key}: {number} is over {most}");
    }
    anyhow::ensure!(
        fill.sensors.saturating_mul(over_ms / every_ms) <= READINGS_MAX,
        "service.telemetry.fill: more than {READINGS_MAX} readings; take fewer sensors, a shorter time, or readings further apart"
    );
    Ok(Fill {
        seed,
        end_ms: i64::try_from(clock::wall_ms()).context("this clock is out of bounds")?,
        sensors: fill.sensors,
        ticks: over_ms / every_ms,
        interval_ms: i64::try_from(every_ms).context("service.telemetry.fill.every is out of bounds")?,
        users: fill.users,
        follows: fill.follows,
        activities: fill.activities,
    })
}
