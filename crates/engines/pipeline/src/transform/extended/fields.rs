//! Selects and renames the fields of a document without decoding their values.

use std::collections::{BTreeMap, BTreeSet};

use bson::raw::CString;
use bson::{RawDocument, RawDocumentBuf};

use super::ConversionError;

/// The selection and renaming of top-level fields.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// The fields to keep; all if empty.
    project: BTreeSet<String>,
    /// New names by old ones.
    rename: BTreeMap<String, CString>,
}

impl Fields {
    /// Builds the selection from the fields to keep (all if empty) and new names.
    ///
    /// # Errors
    ///
    /// If a new name is invalid.
    pub fn build(project: &[String], rename: &BTreeMap<String, String>) -> Result<Self, ConversionError> {
        let named = |(old, new): (&String, &String)| {
            let new =
                CString::try_from(new.as_str()).map_err(|_| ConversionError::Name(format!("{new:?}")))?;
            Ok((old.clone(), new))
        };
        let rename = rename.iter().map(named).collect::<Result<_, _>>()?;
        Ok(Self { project: project.iter().cloned().collect(), rename })
    }

    /// The document with the selected fields under their new names.
    ///
    /// # Errors
    ///
    /// If it is malformed, or two fields would have one name.
    pub fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf, ConversionError> {
        let (mut kept, mut names) = (RawDocumentBuf::new(), BTreeSet::new());
        for element in document.iter() {
            let (name, value) = element.map_err(ConversionError::malformed)?;
            if !self.project.is_empty() && !self.project.contains(name.as_str()) {
                continue;
            }
            let name = self.rename.get(name.as_str()).map_or(name, AsRef::as_ref);
            if !names.insert(name.as_str()) {
                return Err(ConversionError::Twice(name.as_str().to_owned()));
            }
            kept.append(name, value);
        }
        Ok(kept)
    }
}
