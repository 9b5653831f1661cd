//! Empties the run's collection before a run by rule, and decides what happens to it afterwards.

use plimsoll_deployment::Namespace;
use plimsoll_mongo::scenario::Existing;
use plimsoll_report::suite as report;

use super::host::{Hosted, in_the_way};
use super::kind::{Ended, Job};
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// A line that is said of a collection begins so.
const INDENT: &str = "            ";

/// Does what the rule says about a collection that is not empty; what the runs `left` have left is not in the way. What was done,
/// in words, if anything was.
///
/// # Errors
/// When it is in the way, or the server refuses.
pub fn clear(
    hosted: &Hosted<'_>,
    namespace: &Namespace,
    rule: Existing,
    left: &[String],
) -> Outcome<Option<String>> {
    let documents = hosted.count(namespace).deserves(Exit::Server)?;
    let is_left = documents > 0 && hosted.is_all_of(namespace, left).deserves(Exit::Server)?;
    match rule {
        Existing::Refuse if is_left => {
            hosted.drop_collection(namespace).deserves(Exit::Server)?;
            Ok(Some(format!(
                "{INDENT}{namespace} held what an earlier try of this run left ({documents} documents), and was dropped"
            )))
        }
        Existing::Refuse if documents > 0 => Err(in_the_way(namespace, documents)).deserves(Exit::Usage),
        Existing::Drop if documents > 0 => {
            hosted.drop_collection(namespace).deserves(Exit::Server)?;
            Ok(Some(report::cleared(&namespace.to_string(), documents)))
        }
        _ => Ok(None),
    }
}

/// What a run wrote is dropped after it where its collection is its own, if nothing in it is wrong. What was done, in words.
pub fn tidy(
    hosted: &Hosted<'_>,
    namespace: &Namespace,
    job: &Job,
    is_ours: bool,
    ended: Option<&Ended>,
) -> Option<String> {
    let is_own = job.existing == Existing::Refuse || job.has_own();
    if !hosted.stays() || !is_own {
        return None;
    }
    let whole = ended.is_some_and(|ended| ended.intact && !ended.interrupted);
    let is_cut = ended.is_none_or(|ended| ended.intact && ended.interrupted);
    Some(if is_ours && is_cut && job.has_own() {
        format!("{INDENT}{namespace} stays as it is, and is dropped if this run is made again")
    } else if !is_ours || !whole {
        format!(
            "{INDENT}{namespace} stays as it is: to make this run again, say existing drop, or drop it yourself"
        )
    } else {
        match hosted.drop_collection(namespace) {
            Ok(()) => format!("{INDENT}{namespace} was made by this test and is dropped"),
            Err(error) => format!("{INDENT}{error:#}"),
        }
    })
}
