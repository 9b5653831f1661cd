//! The Plimsoll mark: a circle with a line through it.

use maud::{Markup, html};

/// The mark as a picture `size` pixels high; it is an ornament and is not read aloud.
pub(crate) fn mark(size: u32) -> Markup {
    html! {
        svg.mark viewBox="0 0 48 32" height=(size) width=(size * 3 / 2) aria-hidden="true" {
            circle cx="24" cy="16" r="11" {}
            path d="M3 16H45" {}
        }
    }
}
