//! Reads and bounds the section `service.telemetry.fill`, and sizes the fill.

use anyhow::{Context, ensure};
use plimsoll_measure::duration::Span;
use plimsoll_run::system::Fill;
use plimsoll_scenario::ServiceSpec;
use plimsoll_scenario::of_tree;
use plimsoll_systems::FillMoment;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The largest value of each key.
const SENSORS_MAX: u64 = 10_000_000;
const READINGS_MAX: u64 = 1_000_000_000;
const USERS_MAX: u64 = 1_000_000;
const FOLLOWS_MAX: u64 = 1_000;
const ACTIVITIES_MAX: u64 = 10_000;
/// Bounds for all users together.
const ALL_FOLLOWS_MAX: u64 = 100_000_000;
const ALL_ACTIVITIES_MAX: u64 = 100_000_000;
/// The largest number of copies in the design that copies each activity to every follower.
const COPIES_MAX: u64 = 1_000_000_000;

/// The data that the telemetry service holds before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Section {
    /// The number of sensors, from `sensor-0` on.
    sensors: u64,
    /// The time span of their readings, which ends at the start of the run.
    over: Span,
    /// The interval between the readings of a sensor.
    every: Span,
    /// The number of users, from `user-0` on.
    #[serde(default)]
    users: u64,
    /// The number of other users that each user follows.
    #[serde(default)]
    follows: u64,
    /// The number of activities of each user.
    #[serde(default)]
    activities: u64,
    /// The number of users whose feed was read before the load, from `user-0` on. A feed design that keeps
    /// data for readers, such as a cache, then has this data.
    #[serde(default)]
    readers: u64,
}

/// The JSON Schema of the section.
pub fn schema() -> Value {
    schemars::schema_for!(Section).to_value()
}

/// Reads and checks the section of a scenario. `None` if it is missing.
///
/// # Errors
/// When a key is invalid. The error names its path.
pub fn fill(spec: &ServiceSpec, moment: FillMoment) -> anyhow::Result<Option<Fill>> {
    let Some(typed) = &spec.fill else { return Ok(None) };
    let section = Section::deserialize(typed)
        .map_err(|error| anyhow::anyhow!("service.telemetry.fill: {}", of_tree(&error, typed)))?;
    let copies_on_write = spec
        .settings
        .get("feeds")
        .and_then(|feeds| feeds.get("design"))
        .is_some_and(|design| design == "on_write");
    section.check(copies_on_write)?;
    Ok(Some(section.sized(moment)?))
}

impl Section {
    /// The number of readings of each sensor.
    const fn ticks(&self) -> u64 {
        if self.every.as_ns() == 0 { 0 } else { self.over.as_ns() / self.every.as_ns() }
    }

    fn sized(&self, moment: FillMoment) -> anyhow::Result<Fill> {
        let (readings, activities) =
            (self.sensors.saturating_mul(self.ticks()), self.users.saturating_mul(self.activities));
        let documents = readings.saturating_add(activities);
        // An activity may be copied to every follower of its user.
        let writes = documents.saturating_add(activities.saturating_mul(self.follows));
        let end_ms = i64::try_from(moment.end_ms).context("the clock of this machine is out of range")?;
        Ok(Fill {
            documents,
            writes,
            description: format!(
                "{readings} readings of {} sensors, and {activities} activities of {} users",
                self.sensors, self.users
            ),
            order: json!({
                "seed": moment.seed,
                "end_ms": end_ms,
                "sensors": self.sensors,
                "ticks": self.ticks(),
                "interval_ms": self.every.as_ns() / 1_000_000,
                "users": self.users,
                "follows": self.follows,
                "activities": self.activities,
                "readers": self.readers,
            }),
            snapshot: None,
        })
    }

    fn check(&self, copies_on_write: bool) -> anyhow::Result<()> {
        ensure!(self.every.as_ns() >= 1_000_000, "service.telemetry.fill.every: give at least 1ms");
        for (key, number, most) in [
            ("sensors", self.sensors, SENSORS_MAX),
            ("users", self.users, USERS_MAX),
            ("follows", self.follows, FOLLOWS_MAX),
            ("activities", self.activities, ACTIVITIES_MAX),
        ] {
            ensure!(number <= most, "service.telemetry.fill.{key}: {number} is over {most}");
        }
        ensure!(
            self.sensors.saturating_mul(self.ticks()) <= READINGS_MAX,
            "service.telemetry.fill: more than {READINGS_MAX} readings; take fewer sensors, a shorter time, or readings further apart"
        );
        let (readers, users) = (self.readers, self.users);
        ensure!(
            readers <= users,
            "service.telemetry.fill.readers: {readers} readers of {users} users; give at most as many as `users`"
        );
        self.check_products(copies_on_write)
    }

    /// Refuses numbers that are valid alone, but too large together.
    fn check_products(&self, copies_on_write: bool) -> anyhow::Result<()> {
        let (users, follows, activities) =
            (("users", self.users), ("follows", self.follows), ("activities", self.activities));
        check_product(&[users, follows], "edges", ALL_FOLLOWS_MAX)?;
        check_product(&[users, activities], "activities", ALL_ACTIVITIES_MAX)?;
        if copies_on_write {
            let copies = "copies of activities, which feeds `on_write` hold";
            check_product(&[users, follows, activities], copies, COPIES_MAX)?;
        }
        Ok(())
    }
}

fn check_product(factors: &[(&str, u64)], noun: &str, most: u64) -> anyhow::Result<()> {
    let product = factors.iter().fold(1, |product: u64, (_, number)| product.saturating_mul(*number));
    let shown: Vec<_> = factors.iter().map(|(key, number)| format!("{number} {key}")).collect();
    let keys: Vec<_> = factors.iter().map(|(key, _)| format!("`{key}`")).collect();
    ensure!(
        product <= most,
        "service.telemetry.fill: {} are {product} {noun}, over {most}: lower {}",
        shown.join(" × "),
        keys.join(" or ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(section: &str) -> anyhow::Result<Fill> {
        let spec: ServiceSpec = serde_saphyr::from_str(section).unwrap();
        let moment = FillMoment { seed: 3, end_ms: 1_790_000_000_000 };
        Ok(fill(&spec, moment)?.unwrap())
    }

    #[track_caller]
    fn check(numbers: [u64; 3], design: &str, refusal: Option<&str>) {
        let [users, follows, activities] = numbers;
        let fill = format!(
            "{{sensors: 10, over: 1h, every: 10s, users: {users}, follows: {follows}, activities: {activities}}}"
        );
        let section = format!("telemetry: {{settings: {{feeds: {{design: {design}}}}}, fill: {fill}}}");
        match (read(&section), refusal) {
            (Ok(filled), None) => assert_eq!(filled.order["users"], users),
            (Err(error), Some(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, _) => panic!("{numbers:?}: {found:?}"),
        }
    }

    #[test]
    fn too_large_a_product_is_refused_with_the_numbers_and_the_keys_to_lower() {
        check([5_000, 20, 10], "on_write", None);
        check([1_000_000, 100, 100], "hybrid", None);
        check(
            [1_000_000, 0, 10_000],
            "hybrid",
            Some(
                "1000000 users × 10000 activities are 10000000000 activities, over 100000000: lower `users` or `activities`",
            ),
        );
        check([1_000_000, 1_000, 0], "hybrid", Some("lower `users` or `follows`"));
        check([1_000_000, 100, 100], "on_write", Some("lower `users` or `follows` or `activities`"));
        check([2_000_000, 0, 0], "hybrid", Some("users: 2000000 is over 1000000"));
    }

    #[test]
    fn invalid_keys_are_refused_with_their_path() {
        let fill = |keys: &str| format!("telemetry: {{fill: {{sensors: 1, over: 1h, every: 10s, {keys}}}}}");
        assert_eq!(read(&fill("users: 10, readers: 10")).unwrap().order["readers"], 10);
        for (keys, words) in [
            ("users: 10, readers: 11", "11 readers of 10 users"),
            ("sensor: 1", "sensor"),
            ("follows: many", "service.telemetry.fill"),
        ] {
            let error = read(&fill(keys)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let zero = read("telemetry: {fill: {sensors: 1, over: 1h, every: 0s}}").unwrap_err();
        assert!(zero.to_string().contains("at least 1ms"), "{zero}");
    }

    #[test]
    fn a_fill_is_sized_and_ordered() {
        let filled = read(
            "telemetry: {fill: {sensors: 20, over: 10m, every: 10s, users: 10, follows: 3, activities: 4}}",
        );
        let filled = filled.unwrap();
        assert_eq!((filled.documents, filled.writes), (20 * 60 + 10 * 4, 20 * 60 + 10 * 4 * (1 + 3)));
        assert_eq!((&filled.order["ticks"], &filled.order["interval_ms"]), (&json!(60), &json!(10_000)));
        let bare: ServiceSpec = serde_saphyr::from_str("telemetry: {}").unwrap();
        assert!(fill(&bare, FillMoment::default()).unwrap().is_none());
    }
}
