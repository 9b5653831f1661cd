//! Fills a database with readings of sensors before a run.

use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::Sensors;
use crate::readings::{IngestError, Readings, Stored};

/// The approximate number of readings in a batch.
const BATCH: u64 = 4000;
/// The largest number of batches in flight.
const IN_FLIGHT: usize = 4;
/// The pause of a batch after a full queue.
const PAUSE: Duration = Duration::from_millis(20);

/// The data to fill in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preload {
    /// The sensors.
    pub sensors: Sensors,
    /// The number of readings of each sensor: an hour at an interval of 10 s has 360.
    pub ticks: u64,
}

/// The progress of a fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of acknowledged readings, new or known.
    pub done: u64,
    /// The number of known readings among these: filling again changes no data.
    pub known: u64,
    /// The number of all readings of the fill.
    pub total: u64,
}

/// The error of a fill that stopped.
#[derive(Clone, Debug, thiserror::Error)]
#[error("filling the database stopped after {} of {} readings; run it again to continue: {source}", progress.done, progress.total)]
pub struct PreloadError {
    /// The progress.
    pub progress: Progress,
    /// The reason.
    pub source: IngestError,
}

/// Stores the readings sensor by sensor, so that each bucket is written at once. Reports progress after every batch.
///
/// # Errors
/// [`PreloadError`] at the first reading that is not acknowledged.
pub async fn preload(
    readings: &Readings,
    preload: &Preload,
    mut tell: impl FnMut(Progress),
) -> Result<Progress, PreloadError> {
    let Preload { sensors, ticks } = *preload;
    let mut progress = Progress { total: sensors.count.saturating_mul(ticks), ..Progress::default() };
    let mut batches = stream::iter(batches(sensors.count, ticks))
        .map(|(sensor, from, to)| {
            let batch = move || {
                (sensor.0..sensor.1).flat_map(move |sensor| (from..to).map(move |tick| (sensor, tick)))
            };
            ingest(readings, sensors, batch)
        })
        .buffer_unordered(IN_FLIGHT);
    while let Some(answers) = batches.next().await {
        for answer in answers.map_err(|source| PreloadError { progress, source })? {
            match answer {
                Ok(Stored::New) => progress.done += 1,
                Ok(Stored::Known | Stored::Merged | Stored::Differs) => {
                    (progress.done, progress.known) = (progress.done + 1, progress.known + 1)
                }
                Err(source) => return Err(PreloadError { progress, source }),
            }
        }
        tell(progress);
    }
    Ok(progress)
}

/// The sensors and ticks of each batch: several sensors with few readings, or a part of one sensor with many.
fn batches(sensors: u64, ticks: u64) -> impl Iterator<Item = ((u64, u64), u64, u64)> {
    let together = (BATCH / ticks.max(1)).max(1);
    let groups = (0..sensors.div_ceil(together))
        .map(move |group| (group * together, ((group + 1) * together).min(sensors)));
    groups.flat_map(move |group| {
        (0..ticks.div_ceil(BATCH)).map(move |part| (group, part * BATCH, ((part + 1) * BATCH).min(ticks)))
    })
}

async fn ingest<I: Iterator<Item = (u64, u64)>>(
    readings: &Readings,
    sensors: Sensors,
    batch: impl Fn() -> I,
) -> Result<Vec<Result<Stored, IngestError>>, IngestError> {
    loop {
        let made = batch().map(|(sensor, tick)| sensors.reading(sensor, tick)).collect();
        match readings.ingest_many(made).await {
            Err(IngestError::Busy { .. }) => tokio::time::sleep(PAUSE).await,
            answers => return answers,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn batches_hold_every_reading_once() {
        for (sensors, ticks) in [(0, 5), (3, 0), (25, 360), (1, 9001), (9000, 1)] {
            let mut seen = HashSet::new();
            for (group, from, to) in batches(sensors, ticks) {
                let size = (group.1 - group.0) * (to - from);
                assert!(size > 0 && size <= BATCH, "{size}");
                (group.0..group.1)
                    .for_each(|sensor| (from..to).for_each(|tick| assert!(seen.insert((sensor, tick)))));
            }
            assert_eq!(seen.len() as u64, sensors * ticks);
        }
    }
}
