//! The fields that stay and their new names, element by element: no value is read, so none can change.

use std::collections::{BTreeMap, BTreeSet};

use bson::raw::CString;
use bson::{RawDocument, RawDocumentBuf};

use super::Unmapped;

/// What becomes of the fields at the top of a document.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Those that stay; all if it is empty.
    project: BTreeSet<String>,
    /// New names by old ones.
    rename: BTreeMap<String, CString>,
}

impl Fields {
    /// Those that stay, all if there are none, and new names.
    ///
    /// # Errors
    ///
    /// If a new name is none that a field can have.
    pub fn build(project: &[String], rename: &BTreeMap<String, String>) -> Result<Self, Unmapped> {
        let named = |(old, new): (&String, &String)| {
            let new = CString::try_from(new.as_str()).map_err(|_| Unmapped::Name(format!("{new:?}")))?;
            Ok((old.clone(), new))
        };
        let rename = rename.iter().map(named).collect::<Result<_, _>>()?;
        Ok(Self { project: project.iter().cloned().collect(), rename })
    }

    /// The document with the fields that stay, under their new names.
    ///
    /// # Errors
    ///
    /// If it is none, or two fields would have one name.
    pub fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf, Unmapped> {
        let (mut kept, mut names) = (RawDocumentBuf::new(), BTreeSet::new());
        for element in document.iter() {
            let (name, value) = element.map_err(Unmapped::malformed)?;
            if !self.project.is_empty() && !self.project.contains(name.as_str()) {
                continue;
            }
            let name = self.rename.get(name.as_str()).map_or(name, AsRef::as_ref);
            if !names.insert(name.as_str()) {
                return Err(Unmapped::Twice(name.as_str().to_owned()));
            }
            kept.append(name, value);
        }
        Ok(kept)
    }
}
