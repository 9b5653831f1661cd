//! Fills the database of a service that is started for a run.

use std::path::Path;

use anyhow::Context;
use plimsoll_measure::clock;
use plimsoll_telemetry::settings::Settings;
use plimsoll_telemetry::workload::{Fill, fill as store};

use crate::scenario::{self, Staging};
use crate::terminal::say;

/// Another line says how far it is after so many readings.
const TELL_EVERY: u64 = 500_000;

/// Stores what a service has stored before the load; says what, if there is anything.
///
/// # Errors
/// What the database refuses.
pub fn fill(staging: &Staging, uri: &str, seed: u64, quiet: bool) -> anyhow::Result<Option<String>> {
    let Staging::Telemetry(telemetry) = staging;
    let Some(wanted) = &telemetry.fill else { return Ok(None) };
    let mut settings = telemetry.settings.clone();
    uri.clone_into(&mut settings.database.uri);
    let settings = settings.build(Path::new(".")).context("service.telemetry.settings")?;
    let wanted = meant(wanted, seed)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(pour(&settings, &wanted, quiet))?;
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
