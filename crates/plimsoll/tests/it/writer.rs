//! Provides a client that writes to a service and later searches for all acknowledged writes.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Value, json};

use crate::service::Client;

/// The path for single readings.
pub const INGEST: &str = "/api/telemetry/ingest";
const BATCHES: &str = "/api/telemetry/ingest/batch";
const ACTIVITIES: &str = "/api/activity";
/// The number of readings in a batch.
const BATCH: i64 = 5;

/// Sends single readings, batches and activities in turn: the readings of one sensor, a millisecond apart,
/// and the activities of one user. Nothing is sent twice.
pub struct Writer {
    name: String,
    times: Range<i64>,
    turn: u64,
    /// The times of the acknowledged readings.
    pub readings: BTreeSet<i64>,
    /// The IDs of the acknowledged activities.
    pub activities: BTreeSet<String>,
}

/// The body of a reading.
pub fn reading(sensor: &str, at_ms: i64) -> Value {
    json!({"sensorId": sensor, "timestamp": at_ms, "temperature": 21.5})
}

/// The times of all readings of a sensor, from 1970 to `to_ms`.
pub fn stored(client: &mut Client, sensor: &str, to_ms: i64) -> BTreeSet<i64> {
    let pages = pages(client, &format!("/api/telemetry/{sensor}?from=0&to={to_ms}&limit=1000"), "readings");
    pages.iter().map(|it| it["timestamp"].as_i64().unwrap()).collect()
}

/// Makes a user follow others.
pub fn follow(client: &mut Client, user: &str, authors: &[String]) {
    let path = format!("{ACTIVITIES}/{user}/following");
    let (status, answer) = client.send("POST", &path, &json!({"userIds": authors}).to_string()).unwrap();
    assert!(status < 300, "{status}: {answer}");
}

/// The IDs in a user's feed.
pub fn feed(client: &mut Client, user: &str) -> BTreeSet<String> {
    let pages = pages(client, &format!("{ACTIVITIES}/{user}?limit=1000"), "activities");
    pages.iter().map(|it| it["activityId"].as_str().unwrap().to_owned()).collect()
}

/// The elements of the array `key` of all pages.
fn pages(client: &mut Client, path: &str, key: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}{cursor}"));
        found.extend(page[key].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

impl Writer {
    /// Creates a writer whose sensor and user have its name; its readings begin at `from_ms`.
    pub fn new(name: String, from_ms: i64) -> Self {
        let (readings, activities) = (BTreeSet::new(), BTreeSet::new());
        Self { name, times: from_ms..from_ms, turn: 0, readings, activities }
    }

    /// Sends the next write; returns the status of the answer.
    pub fn send(&mut self, client: &mut Client) -> std::io::Result<u16> {
        self.turn += 1;
        match self.turn % 3 {
            1 => self.single(client),
            2 => self.batch(client),
            _ => self.activity(client),
        }
    }

    fn single(&mut self, client: &mut Client) -> std::io::Result<u16> {
        let times = self.take(1);
        let (status, _) = client.send("POST", INGEST, &reading(&self.name, times.start).to_string())?;
        self.readings.extend(times.filter(|_| status == 201));
        Ok(status)
    }

    /// The answer to a partly stored batch lists the rejected readings.
    fn batch(&mut self, client: &mut Client) -> std::io::Result<u16> {
        let times = self.take(BATCH);
        let readings: Value = times.clone().map(|at_ms| reading(&self.name, at_ms)).collect();
        let (status, body) = client.send("POST", BATCHES, &readings.to_string())?;
        if matches!(status, 201 | 207) {
            let failed: Vec<_> = body["failed"].as_array().unwrap().iter().map(|it| &it["line"]).collect();
            let stored = times.zip(1..).filter(|(_, line)| !failed.contains(&&json!(line)));
            self.readings.extend(stored.map(|(at_ms, _): (i64, i64)| at_ms));
        }
        Ok(status)
    }

    fn activity(&mut self, client: &mut Client) -> std::io::Result<u16> {
        let id = format!("{}-{}", self.name, self.turn);
        let status = self.post(client, &id)?;
        self.activities.extend(Some(id).filter(|_| status == 201));
        Ok(status)
    }

    fn post(&self, client: &mut Client, id: &str) -> std::io::Result<u16> {
        let activity = json!({"activityId": id, "userId": self.name, "type": "post"});
        Ok(client.send("POST", ACTIVITIES, &activity.to_string())?.0)
    }

    fn take(&mut self, count: i64) -> Range<i64> {
        let from_ms = self.times.end;
        self.times.end += count;
        from_ms..self.times.end
    }

    /// Checks that every acknowledged write is stored, and that every stored reading was sent.
    #[track_caller]
    pub fn check(&self, client: &mut Client) {
        let Self { name, times, readings, activities, .. } = self;
        let (stored, feed) = (stored(client, name, times.end), feed(client, name));
        let lost: Vec<_> = readings.difference(&stored).collect();
        assert!(
            lost.is_empty(),
            "{name}: {} of {} acknowledged readings are lost",
            lost.len(),
            readings.len()
        );
        assert!(stored.iter().all(|at_ms| times.contains(at_ms)), "{name}: an unexpected reading");
        let lost: Vec<_> = activities.difference(&feed).collect();
        assert!(lost.is_empty(), "{name}: {lost:?} of {} acknowledged activities are lost", activities.len());
        assert!(readings.len() > activities.len() && !activities.is_empty(), "{name} sent all three kinds");
    }

    /// Checks the state after the service ended with at most one write in flight. Only that write may be
    /// stored in addition, and a repetition of it counts once.
    #[track_caller]
    pub fn check_once(&self, client: &mut Client) {
        let found = |client: &mut Client| {
            (stored(client, &self.name, self.times.end).len(), feed(client, &self.name).len())
        };
        let before = found(client);
        assert!(before.0 <= self.readings.len() + BATCH as usize, "{}: {before:?}", self.name);
        assert!(before.1 <= self.activities.len() + 1, "{}: {before:?}", self.name);
        let first = reading(&self.name, *self.readings.first().unwrap()).to_string();
        assert_eq!(client.send("POST", INGEST, &first).unwrap().0, 201);
        assert_eq!(self.post(client, self.activities.first().unwrap()).unwrap(), 201);
        assert_eq!(found(client), before, "{}: repeated, it counts once", self.name);
    }
}
