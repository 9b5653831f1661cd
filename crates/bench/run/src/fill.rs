//! Fills the database of a service that the run starts.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_telemetry::feeds::Design;
use plimsoll_telemetry::settings::Settings;
use plimsoll_telemetry::workload::{Fill, fill as store};

use crate::console::Console;
use crate::exit::{Deserves, Exit, Outcome};
use plimsoll_scenario::{self as scenario, Staging};

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
/// Bounds of what is filled in for all users together.
const ALL_FOLLOWS_MAX: u64 = 100_000_000;
const ALL_ACTIVITIES_MAX: u64 = 100_000_000;
/// Of the design that copies each activity to everyone who follows.
const COPIES_MAX: u64 = 1_000_000_000;

/// The documents that a service's database holds before the load.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The service and its fill.
    pub staging: &'a Staging,
    /// Seed of the documents.
    pub seed: u64,
    /// Where progress goes.
    pub console: &'a dyn Console,
    /// The user's wish to stop.
    pub control: &'a Control,
}

/// Stores what a service has stored before the load; says what, if there is anything.
///
/// # Errors
/// What the database refuses, or the user's wish to stop.
pub fn fill(order: Order<'_>, uri: &str) -> Outcome<Option<String>> {
    let Staging::Telemetry(telemetry) = order.staging;
    let Some(wanted) = &telemetry.fill else { return Ok(None) };
    let mut settings = telemetry.settings.clone();
    uri.clone_into(&mut settings.database.uri);
    let settings = settings.build(Path::new(".")).context("service.telemetry.settings")?;
    let wanted = meant(wanted, settings.feeds.design, order.seed)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let filled = runtime.block_on(async {
        tokio::select! {
            filled = pour(&settings, &wanted, order.console) => Some(filled),
            () = stopped(order.control) => None,
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
    let settings = telemetry.settings.clone().build(Path::new(".")).context("service.telemetry.settings")?;
    telemetry.fill.as_ref().map_or(Ok(()), |fill| meant(fill, settings.feeds.design, 0).map(drop))
}

async fn stopped(control: &Control) {
    while !control.is_stopped() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn pour(settings: &Settings, wanted: &Fill, console: &dyn Console) -> anyhow::Result<()> {
    let mut next = TELL_EVERY;
    let tell = |progress: plimsoll_telemetry::workload::Progress| {
        if progress.done >= next {
            next = progress.done + TELL_EVERY;
            console.say(&format!("filling in: {} of {} readings", progress.done, progress.total));
        }
    };
    store(settings, wanted, tell).await.context("fill the service's database")
}

fn meant(fill: &scenario::Fill, design: Design, seed: u64) -> anyhow::Result<Fill> {
    let (over_ms, every_ms) = (fill.over.as_ns() / 1_000_000, fill.every.as_ns() / 1_000_000);
    single(fill, over_ms, every_ms)?;
    bounded(fill, design)?;
    Ok(Fill {
        seed,
        end_ms: i64::try_from(clock::wall_ms()).context("this clock is out of bounds")?,
        sensors: fill.sensors,
        ticks: over_ms / every_ms,
        interval_ms: i64::try_from(every_ms).context("service.telemetry.fill.every is out of bounds")?,
        users: fill.users,
        follows: fill.follows,
        activities: fill.activities,
        readers: fill.readers,
    })
}

/// Whether each number can be meant by itself.
fn single(fill: &scenario::Fill, over_ms: u64, every_ms: u64) -> anyhow::Result<()> {
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
    let (readers, users) = (fill.readers, fill.users);
    anyhow::ensure!(
        readers <= users,
        "service.telemetry.fill.readers: {readers} of {users} users cannot have read; give as many as `users` or fewer"
    );
    Ok(())
}

/// Numbers that are well each for themselves may be too many together.
fn bounded(fill: &scenario::Fill, design: Design) -> anyhow::Result<()> {
    let (users, follows, activities) =
        (("users", fill.users), ("follows", fill.follows), ("activities", fill.activities));
    few(&[users, follows], "edges", ALL_FOLLOWS_MAX)?;
    few(&[users, activities], "activities", ALL_ACTIVITIES_MAX)?;
    if design == Design::OnWrite {
        few(&[users, follows, activities], "copies of activities, which feeds `on_write` hold", COPIES_MAX)?;
    }
    Ok(())
}

/// Whether so many of everything make no more than `most`.
fn few(factors: &[(&str, u64)], what: &str, most: u64) -> anyhow::Result<()> {
    let product = factors.iter().fold(1, |product: u64, (_, number)| product.saturating_mul(*number));
    let shown: Vec<_> = factors.iter().map(|(key, number)| format!("{number} {key}")).collect();
    let keys: Vec<_> = factors.iter().map(|(key, _)| format!("`{key}`")).collect();
    anyhow::ensure!(
        product <= most,
        "service.telemetry.fill: {} are {product} {what}, over {most}: lower {}",
        shown.join(" × "),
        keys.join(" or ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::duration::Span;

    use super::*;

    #[track_caller]
    fn check(numbers: [u64; 3], design: Design, refusal: Option<&str>) {
        let [users, follows, activities] = numbers;
        let (over, every) = (Span::from_secs(3600), Span::from_secs(10));
        let fill = scenario::Fill { sensors: 10, over, every, users, follows, activities, readers: 0 };
        match (meant(&fill, design, 1), refusal) {
            (Ok(meant), None) => assert_eq!(meant.users, users),
            (Err(error), Some(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, _) => panic!("{numbers:?}: {found:?}"),
        }
    }

    #[test]
    fn what_is_too_much_together_is_refused_with_the_numbers_and_what_to_lower() {
        check([5_000, 20, 10], Design::OnWrite, None);
        check([1_000_000, 100, 100], Design::Hybrid, None);
        check(
            [1_000_000, 0, 10_000],
            Design::Hybrid,
            Some(
                "1000000 users × 10000 activities are 10000000000 activities, over 100000000: lower `users` or `activities`",
            ),
        );
        check([1_000_000, 1_000, 0], Design::Hybrid, Some("lower `users` or `follows`"));
        check([1_000_000, 100, 100], Design::OnWrite, Some("lower `users` or `follows` or `activities`"));
        check([2_000_000, 0, 0], Design::Hybrid, Some("users: 2000000 is over 1000000"));
    }

    #[test]
    fn no_more_users_have_read_than_there_are() {
        let (over, every) = (Span::from_secs(3600), Span::from_secs(10));
        let fill = |readers| {
            let fill =
                scenario::Fill { sensors: 1, over, every, users: 10, follows: 2, activities: 1, readers };
            meant(&fill, Design::Hybrid, 1)
        };
        assert_eq!(fill(10).unwrap().readers, 10);
        assert!(fill(11).unwrap_err().to_string().contains("11 of 10 users"));
    }
}
