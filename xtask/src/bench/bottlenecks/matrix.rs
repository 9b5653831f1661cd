//! Counts the names by cause, and prints them as a table.

use std::fmt::Write;

use serde_json::Value;

use super::Cause;

/// The columns: every name that a search can give, from the client to the disk.
const NAMES: [&str; 15] = [
    "client CPU",
    "wake",
    "network",
    "connections",
    "server CPU",
    "CPU quota",
    "stolen CPU",
    "memory",
    "WiredTiger cache",
    "tickets",
    "checkpoint",
    "journal sync",
    "flow control",
    "replication lag",
    "disk",
];
/// The column of searches that name nothing.
const NOTHING: &str = "not found";
const WIDTH: usize = 18;

/// The names of a search, the most likely first.
fn names(row: &Value) -> Vec<&str> {
    let found = row["line"]["bottlenecks"].as_array();
    found.into_iter().flatten().filter_map(|it| it["name"].as_str()).collect()
}

/// One search in a line.
pub(super) fn line(row: &Value) -> String {
    let (round, cause) = (row["round"].as_u64().unwrap_or(0), row["cause"].as_str().unwrap_or_default());
    let rate = row["line"]["rate"].as_f64().map_or("no line".to_owned(), |rate| format!("{rate:.0}/s"));
    let names = names(row);
    let named = if names.is_empty() { NOTHING.to_owned() } else { names.join(", ") };
    format!("{round:<4}{cause:<WIDTH$}{rate:>12}  {named}")
}

/// Each cause with the name that came first, and the searches whose first name is right or wrong.
pub(super) fn table(causes: &[Cause], rows: &[Value]) -> String {
    let first = |row: &Value| names(row).first().copied().unwrap_or(NOTHING).to_owned();
    let columns: Vec<&str> = NAMES.into_iter().chain([NOTHING]).collect();
    let used: Vec<&str> =
        columns.into_iter().filter(|name| rows.iter().any(|row| first(row) == *name)).collect();
    let mut table = format!("{:<WIDTH$}", "cause");
    for name in used.iter().chain(&["right", "wrong"]) {
        let _ = write!(table, "{name:>WIDTH$}");
    }
    for cause in causes {
        let of: Vec<_> = rows.iter().filter(|row| row["cause"] == cause.name()).map(first).collect();
        let counts = used.iter().map(|name| of.iter().filter(|first| first == name).count());
        let right = of.iter().filter(|first| is_right(*cause, first)).count();
        let wrong = of.iter().filter(|first| *first != NOTHING && !is_right(*cause, first)).count();
        let _ = write!(table, "\n{:<WIDTH$}", cause.name());
        for count in counts.chain([right, wrong]) {
            let _ = write!(table, "{count:>WIDTH$}");
        }
    }
    table.push('\n');
    table
}

/// A cause that no rule observes is rightly not found.
fn is_right(cause: Cause, first: &str) -> bool {
    let right = cause.right();
    right.contains(&first) || right.is_empty() && first == NOTHING
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(cause: Cause, names: &[&str]) -> Value {
        let bottlenecks: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"round": 1, "cause": cause.name(), "line": {"rate": 1234.5, "bottlenecks": bottlenecks}})
    }

    #[test]
    fn the_first_name_of_each_search_is_counted() {
        let rows = [
            row(Cause::CpuQuota, &["server CPU", "disk"]),
            row(Cause::CpuQuota, &["disk"]),
            row(Cause::FewTickets, &[]),
            row(Cause::SlowDisk, &[]),
        ];
        let causes = [Cause::CpuQuota, Cause::SlowDisk, Cause::FewTickets];
        let table = table(&causes, &rows);
        let cells: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(cells[0], ["cause", "server", "CPU", "disk", "not", "found", "right", "wrong"]);
        assert_eq!(cells[1], ["cpu-quota", "1", "1", "0", "1", "1"]);
        assert_eq!(cells[2], ["slow-disk", "0", "0", "1", "0", "0"]);
        assert_eq!(cells[3], ["few-tickets", "0", "0", "1", "1", "0"]);
        assert_eq!(line(&rows[0]), "1   cpu-quota               1234/s  server CPU, disk");
    }
}
