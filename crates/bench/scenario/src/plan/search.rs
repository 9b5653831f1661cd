//! Chooses the load whose rate a search or a ladder varies, and the background loads.

use anyhow::{Context, bail};
use plimsoll_load::arrivals::CONNECTIONS_DEFAULT;
use plimsoll_load::phase::{Load, Phase, Timing};

use super::Plan;
use crate::Scenario;

/// The varied load, and the background loads of its phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The varied load.
    pub load: Load,
    /// The background loads. They arrive as in their phase, from the start to the end of each attempt. They
    /// send no document twice: each attempt continues the document numbers of the attempt before.
    pub background: Vec<Load>,
}

impl Searched {
    /// The background loads, each with its arrivals.
    pub fn described(&self) -> Vec<String> {
        self.background.iter().map(|load| format!("{} ({})", load.name, load.describe())).collect()
    }

    /// The loads of an attempt, with the varied load first.
    pub fn loads(&self, varied: Load) -> Vec<Load> {
        std::iter::once(varied).chain(self.background.iter().cloned()).collect()
    }

    /// A note that names the varied load and the background loads. `None` without background loads.
    pub fn note(&self) -> Option<String> {
        let background = self.described().join("; ");
        (!background.is_empty()).then(|| format!("{} is varied; background: {background}", self.load.name))
    }
}

/// The index of the varied load in the last phase: the named load, or the only one.
pub(super) fn varied(phases: &[Phase], named: Option<&str>) -> anyhow::Result<Option<usize>> {
    let loads = of_last(phases);
    let Some(name) = named else { return Ok((loads.len() == 1).then_some(0)) };
    let place = loads.iter().position(|load| load.name == name);
    let none = || format!("line.load: the last phase has no load `{name}`, but {}", names(loads));
    place.with_context(none).map(Some)
}

fn of_last(phases: &[Phase]) -> &[Load] {
    phases.last().map_or(&[], |phase| phase.loads.as_slice())
}

fn names(loads: &[Load]) -> String {
    let names: Vec<_> = loads.iter().map(|load| load.name.as_str()).collect();
    names.join(", ")
}

impl Plan {
    /// The load that a search or a ladder varies.
    ///
    /// # Errors
    /// When the last phase has several loads and none is named.
    pub fn searched(&self) -> anyhow::Result<Searched> {
        let loads = of_last(&self.phases);
        let Some(varied) = self.varied else {
            bail!(
                "line.load: the last phase has several loads ({}): name the load to vary, for example \
                 --set line.load={}; the others run in the background",
                names(loads),
                loads.first().map_or("", |load| load.name.as_str())
            );
        };
        let background = self.background().map(whole).collect();
        Ok(Searched { load: loads[varied].clone(), background })
    }

    /// The number of connections of the search's constant arrivals.
    pub fn search_connections(&self, scenario: &Scenario) -> u32 {
        let own = self.varied_load().map_or(1, |load| load.arrivals.connections());
        scenario.line.connections.unwrap_or(own.max(CONNECTIONS_DEFAULT))
    }

    /// The mean number of documents per operation of the varied load.
    pub fn documents_per_operation(&self) -> f64 {
        let Some(load) = self.varied_load() else { return 1.0 };
        let weight: f64 = load.mix.iter().map(|(_, weight)| weight).sum();
        let documents = |(operation, weight): &(usize, f64)| {
            f64::from(self.operations[*operation].1.documents()) * weight
        };
        load.mix.iter().map(documents).sum::<f64>() / weight
    }

    /// The sum of the peak rates of the open background loads, in operations per second.
    pub fn beside_per_s(&self) -> f64 {
        self.background().filter_map(|load| load.arrivals.peak()).sum()
    }

    /// The varied load, if known.
    fn varied_load(&self) -> Option<&Load> {
        of_last(&self.phases).get(self.varied?)
    }

    fn background(&self) -> impl Iterator<Item = &Load> {
        let loads = of_last(&self.phases).iter().enumerate();
        loads.filter(|(place, _)| Some(*place) != self.varied).map(|(_, load)| load)
    }
}

/// A copy of a load without its own start and end: it lasts for the whole attempt.
fn whole(load: &Load) -> Load {
    Load { timing: Timing { think: load.timing.think, ..Timing::default() }, ..load.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtins, load};

    fn plan(name: &str, assignments: &[&str]) -> anyhow::Result<Plan> {
        let assignments: Vec<_> = assignments.iter().map(|&text| text.to_owned()).collect();
        Plan::build(&load(name, &assignments, None)?)
    }

    #[test]
    fn the_named_load_is_searched_and_the_others_run_in_the_background() {
        let plan = plan("baseline", &["phases.0.load.feed.start=10s"]).unwrap();
        let searched = plan.searched().unwrap();
        assert_eq!(searched.load.name, "ingest");
        assert_eq!(
            searched.described(),
            ["feed (constant 200/s over 50 connections)", "statistics (constant 20/s over 10 connections)"],
            "from the beginning of each attempt on"
        );
        let names: Vec<_> = searched.loads(searched.load.clone()).into_iter().map(|load| load.name).collect();
        assert_eq!(names, ["ingest", "feed", "statistics"]);
        assert!(searched.note().unwrap().starts_with("ingest is varied; background: feed ("));
        assert_eq!(plan.beside_per_s(), 220.0);
    }

    #[test]
    fn several_loads_without_a_named_one_can_be_run_but_not_searched() {
        let several = plan("baseline", &["line={}"]).unwrap();
        let said = several.searched().unwrap_err().to_string();
        assert!(said.contains("(feed, ingest, statistics)") && said.contains("--set line.load="), "{said}");
        let unknown = format!("{:#}", plan("baseline", &["line.load=ingets"]).unwrap_err());
        assert!(unknown.contains("no load `ingets`, but feed, ingest, statistics"), "{unknown}");
    }

    #[test]
    fn the_only_load_needs_no_name_and_has_no_background() {
        let searched = plan("bulk-baseline", &[]).unwrap().searched().unwrap();
        assert_eq!((searched.load.name.as_str(), searched.note()), ("insert", None));
    }

    #[test]
    fn every_shipped_scenario_defines_its_searched_load() {
        // A search takes one cell of a matrix, not the whole matrix.
        for builtin in builtins() {
            let loaded = load(builtin.name, &[], None).unwrap();
            if loaded.scenario.matrix.is_none() {
                Plan::build(&loaded).unwrap().searched().unwrap();
            }
        }
    }
}
