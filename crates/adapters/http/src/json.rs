//! Renders the BSON of templates as JSON and as parts of a URL, and finds values in the JSON of an answer.

pub(crate) use found::Found;
pub(crate) use path::Path;
pub(crate) use render::{document, percent, plain};
pub(crate) use scan::find;
pub(crate) use stamp::{Stamp, StampForm, Stamps};

mod decimal;
mod found;
mod moment;
mod path;
mod render;
mod scan;
mod stamp;
