//! Makes, shows and changes datasets.

mod create;
mod patch;
mod replace;
mod show;

pub use create::{Creation, create, faults};
pub use patch::{Form, Patch, patch};
pub use replace::replace;
pub use show::{INTERNAL, show};

use bson::{Document, doc};

/// The version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 3: the types `raw` and `derived` have separate forms. Some lists also have a name for their first element.
    V3,
    /// Version 4.
    V4,
}

impl Version {
    /// The text in the field `version`.
    const fn text(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V4 => "4",
        }
    }
}

/// The fields that the catalogue keeps.
const KEPT: [&str; 8] = [
    "createdBy",
    "createdAt",
    "updatedBy",
    "updatedAt",
    "version",
    "size",
    "numberOfFiles",
    "scientificMetadataValid",
];
/// Fields that a client may send but the catalogue counts itself: they are accepted without effect.
const COUNTED: [&str; 2] = ["size", "numberOfFiles"];
/// The fields that every dataset has.
const REQUIRED: [&str; 7] =
    ["owner", "ownerGroup", "contactEmail", "sourceFolder", "creationTime", "datasetName", "type"];

/// The life cycle of a new dataset.
fn new_lifecycle() -> Document {
    doc! {
        "archivable": true, "retrievable": false, "publishable": false, "isOnCentralDisk": true,
        "archiveStatusMessage": "datasetCreated", "retrieveStatusMessage": "",
        "archiveReturnMessage": {}, "retrieveReturnMessage": {}, "retrieveIntegrityCheck": false,
    }
}

/// The fields of a new dataset that the client left out.
fn defaults() -> Document {
    doc! {
        "packedSize": 0_i64, "numberOfFilesArchived": 0_i64,
        "principalInvestigators": [], "keywords": [], "techniques": [], "usedSoftware": [], "proposalIds": [],
        "sampleIds": [], "instrumentIds": [], "inputDatasets": [], "relationships": [], "accessGroups": [],
        "sharedWith": [], "isPublished": false, "scientificMetadata": {},
    }
}

/// The classification of SciCat: availability follows the redundancy of the tapes.
fn classification(tape_redundancy: Option<&str>) -> String {
    format!("IN=medium,AV={},CO=low", tape_redundancy.unwrap_or("low"))
}

/// Whether a text is one e-mail address, or several with semicolons.
fn is_email(text: &str) -> bool {
    let one = |text: &str| {
        let (name, host) = text.trim().split_once('@').unwrap_or_default();
        !name.is_empty()
            && host.contains('.')
            && !host.starts_with('.')
            && !host.ends_with('.')
            && !text.trim().contains(char::is_whitespace)
            && !host.contains('@')
    };
    text.split(';').all(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_name_and_a_host() {
        for text in ["a@b.c", "a@b.c; d@e.f", "a.b+c@sub.host.org"] {
            assert!(is_email(text), "{text}");
        }
        for text in ["", "a", "a@b", "@b.c", "a@b.c;", "a b@c.d", "a@b.c, d@e.f", "a@@b.c", "a@.c", "a@c."] {
            assert!(!is_email(text), "{text}");
        }
    }
}
