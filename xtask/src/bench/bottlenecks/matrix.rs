//! Counts the names by cause, and prints them as a table.

use std::fmt::Write;

use serde_json::Value;

use super::Cause;

/// The column of searches that name nothing.
const NOTHING: &str = "not found";
const WIDTH: usize = 18;
/// The largest share of searches whose first name is wrong.
const WRONG_MAX: f64 = 0.05;

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

/// The name that came first.
fn first(row: &Value) -> &str {
    names(row).first().copied().unwrap_or(NOTHING)
}

/// Each cause with the name that came first, and the searches whose first name is right or wrong; then the share of wrong names.
pub(super) fn table(causes: &[Cause], rows: &[Value]) -> String {
    let columns = columns(rows);
    let mut table = format!("{:<WIDTH$}", "cause");
    for name in columns.iter().chain(&["right", "wrong"]) {
        let _ = write!(table, "{name:>WIDTH$}");
    }
    let mut all_wrong = 0;
    for cause in causes {
        let of: Vec<_> = rows.iter().filter(|row| row["cause"] == cause.name()).map(first).collect();
        let counts = columns.iter().map(|name| of.iter().filter(|first| *first == name).count());
        let right = of.iter().filter(|first| is_right(*cause, first)).count();
        let wrong = of.iter().filter(|first| **first != NOTHING && !is_right(*cause, first)).count();
        all_wrong += wrong;
        let _ = write!(table, "\n{:<WIDTH$}", cause.name());
        for count in counts.chain([right, wrong]) {
            let _ = write!(table, "{count:>WIDTH$}");
        }
    }
    let _ = writeln!(table, "\n\n{}", share(all_wrong, rows.len()));
    table
}

/// Every first name, in the order of appearance; searches that name nothing come last.
fn columns(rows: &[Value]) -> Vec<&str> {
    let mut columns = Vec::new();
    for name in rows.iter().map(first).filter(|name| *name != NOTHING) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    columns.extend(rows.iter().map(first).find(|name| *name == NOTHING));
    columns
}

fn share(wrong: usize, searches: usize) -> String {
    let percent = 100.0 * wrong as f64 / searches.max(1) as f64;
    let goal = 100.0 * WRONG_MAX;
    format!("wrong names: {wrong} of {searches} searches, {percent:.1} % (goal: at most {goal:.0} %)")
}

/// Whether a name is right. If no rule observes the cause, naming nothing is right.
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

    #[test]
    fn the_columns_of_a_cause_add_up_to_its_searches() {
        let names = ["write conflicts", "a new rule", "disk", "disk"];
        let rows = names.map(|name| row(Cause::HotDocument, &[name]));
        let table = table(&[Cause::HotDocument], &rows);
        let cells: Vec<Vec<_>> = table.lines().map(|line| line.split("  ").collect()).collect();
        let filled = |line: &Vec<&str>| {
            line.iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
        };
        let cells: Vec<Vec<String>> = cells.iter().map(filled).collect();
        assert_eq!(cells[0], ["cause", "write conflicts", "a new rule", "disk", "right", "wrong"]);
        assert_eq!(cells[1], ["hot-document", "1", "1", "2", "1", "3"]);
    }

    #[test]
    fn the_share_of_wrong_names_is_of_all_searches() {
        let rows = [
            row(Cause::CpuQuota, &["server CPU"]),
            row(Cause::SlowDisk, &["server CPU"]),
            row(Cause::SlowDisk, &[]),
            row(Cause::SlowDisk, &["disk"]),
        ];
        let table = table(&[Cause::CpuQuota, Cause::SlowDisk], &rows);
        assert_eq!(table.lines().last(), Some("wrong names: 1 of 4 searches, 25.0 % (goal: at most 5 %)"));
    }
}
