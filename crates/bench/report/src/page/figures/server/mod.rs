//! Draws the server's counters as small charts on the run's time axis.

mod charts;

use maud::{Markup, html};

use super::Timeline;
use crate::chart::{self, Series, Size};
use crate::page::Page;
use charts::{Draft, drafts};

/// Every counter over time. Counters that stay at zero or are not reported are only listed.
pub(in crate::page) fn server(page: &Page<'_>, timeline: &Timeline) -> Markup {
    if page.server.len() < 2 {
        return Markup::default();
    }
    let sorted = drafts(page.server).into_iter().fold(Sorted::default(), Sorted::add);
    let charts: Vec<_> = sorted.moved.into_iter().map(|draft| drawn(draft, timeline)).collect();
    html! {
        @if !charts.is_empty() {
            p.note { "On the time axis of the charts above, " (timeline.axis().name) "." }
            div.multiples { @for chart in charts { (chart) } }
        }
        (listed("Zero throughout", &sorted.zero))
        (listed("Not reported", &sorted.missing))
    }
}

/// Charts sorted by their content.
#[derive(Default)]
struct Sorted {
    moved: Vec<Draft>,
    zero: Vec<String>,
    missing: Vec<String>,
}

impl Sorted {
    /// Adds a chart. Lines that stay at zero are listed instead of drawn.
    fn add(mut self, mut draft: Draft) -> Self {
        draft.series.retain(|series| !series.is_empty());
        let title = within_a_sentence(draft.title);
        let (zero, moved): (Vec<_>, Vec<_>) =
            std::mem::take(&mut draft.series).into_iter().partition(is_zero);
        match (zero.is_empty(), moved.is_empty()) {
            (true, true) => self.missing.push(title),
            (false, true) => self.zero.push(title),
            (true, false) => {}
            (false, false) => {
                let names: Vec<_> = zero.iter().map(|series| series.name.as_str()).collect();
                self.zero.push(format!("{title} ({})", names.join(", ")));
            }
        }
        if !moved.is_empty() {
            draft.series = moved;
            self.moved.push(draft);
        }
        self
    }
}

/// A title in the form for the middle of a sentence; an acronym keeps its capitals.
fn within_a_sentence(title: &str) -> String {
    let is_acronym = title.chars().nth(1).is_some_and(char::is_uppercase);
    if is_acronym { title.to_owned() } else { title.to_lowercase() }
}

fn is_zero(series: &Series) -> bool {
    chart::extent([series]) == Some((0.0, 0.0))
}

fn drawn(draft: Draft, timeline: &Timeline) -> Markup {
    let high = chart::extent(&draft.series).map_or(0.0, |(_, high)| high);
    let y = draft.axis(high);
    timeline.draw((draft.title, draft.caption), y, draft.series, Size::Small)
}

fn listed(what: &str, titles: &[String]) -> Markup {
    html! { @if !titles.is_empty() { p.note { strong { (what) } ": " (titles.join(", ")) "." } } }
}
