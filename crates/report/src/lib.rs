//! Turns a run into text or a page.
