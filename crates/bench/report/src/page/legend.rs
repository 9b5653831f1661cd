//! How to read the page: every word that it uses in a sense of its own.

use maud::{Markup, html};

/// Words and what they mean.
const WORDS: [(&str, &str); 10] = [
    ("response", "From the moment an operation was due to its answer: what a user of the service waits."),
    ("service", "From the moment it was sent to its answer: what the server and the network take."),
    ("wake", "From the moment it was due to the moment the tool noticed: the tool's own fault."),
    ("wait", "From then to the moment it was sent: no connection was free, usually the server's fault."),
    ("operation", "One command. A batch is one operation for latency and many documents for the rate."),
    (
        "achieved",
        "Operations completed ÷ operations due. Under 99 % a rate was not reached, whatever its latency.",
    ),
    (
        "load line",
        "The highest rate at which the objective held each time it was tried, with the rate that failed each time above.",
    ),
    (
        "headroom",
        "What the tool does against the null server, which answers at once, ÷ what it did here. Under 2 it is the limit.",
    ),
    ("n too small", "Fewer than ten values lie beyond that percentile: it would be a matter of chance."),
    (
        "closed",
        "The next operation waits for the last answer: response equals service and saturation is hidden.",
    ),
];

/// The foot of the page.
pub(super) fn legend() -> Markup {
    html! {
        footer {
            h2 { "How to read this page" }
            dl { @for (word, meaning) in WORDS { div { dt { (word) } dd { (meaning) } } } }
            p {
                "Percentiles are read from merged histograms of three significant digits and are never averaged. Charts \
                 keep the smallest and the largest value of every stretch. What is not known is shown as not known."
            }
        }
    }
}
