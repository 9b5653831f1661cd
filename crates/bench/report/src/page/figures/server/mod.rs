//! Draws the server's counters as small charts on the run's time axis.

mod charts;
mod series;

use maud::{Markup, html};

use super::Timeline;
use crate::chart::{self, Chart, Series, Size};
use crate::page::Page;
use charts::{Draft, drafts};

/// Every counter over time. Counters that stay at zero or are not reported are only listed.
pub(in crate::page) fn server(page: &Page<'_>, timeline: &Timeline) -> Markup {
    if page.server.len() < 2 {
        return Markup::default();
    }
    let sorted = Sorted::of(drafts(page.server));
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
    fn of(drafts: Vec<Draft>) -> Self {
        let mut sorted = Self::default();
        drafts.into_iter().for_each(|draft| sorted.add(draft));
        sorted
    }

    /// Lines that stay at zero are listed instead of drawn.
    fn add(&mut self, mut draft: Draft) {
        draft.series.retain(|series| !series.is_empty());
        let title = within_a_sentence(draft.title);
        let (zero, moved): (Vec<_>, Vec<_>) = draft.series.into_iter().partition(is_zero);
        match (zero.as_slice(), moved.is_empty()) {
            ([], true) => self.missing.push(title),
            (_, true) => self.zero.push(title),
            ([], false) => self.moved.push(Draft { series: moved, ..draft }),
            (zero, false) => {
                let names: Vec<_> = zero.iter().map(|series| series.name.as_str()).collect();
                self.zero.push(format!("{title} ({})", names.join(", ")));
                self.moved.push(Draft { series: moved, ..draft });
            }
        }
    }
}

/// A title as it stands within a sentence; an acronym keeps its capitals.
fn within_a_sentence(title: &str) -> String {
    let is_acronym = title.chars().nth(1).is_some_and(char::is_uppercase);
    if is_acronym { title.to_owned() } else { title.to_lowercase() }
}

fn is_zero(series: &Series) -> bool {
    chart::extent([series]) == Some((0.0, 0.0))
}

fn drawn(draft: Draft, timeline: &Timeline) -> Markup {
    let series = draft.series;
    let high = chart::extent(&series).map_or(0.0, |(_, high)| high);
    chart::draw(&Chart {
        title: draft.title.to_owned(),
        caption: draft.caption.to_owned(),
        x: timeline.axis(),
        y: (draft.y)(high),
        series,
        bands: timeline.shades.clone(),
        rules: Vec::new(),
        marks: timeline.marks.clone(),
        size: Size::Small,
    })
}

fn listed(what: &str, titles: &[String]) -> Markup {
    html! { @if !titles.is_empty() { p.note { strong { (what) } ": " (titles.join(", ")) "." } } }
}
