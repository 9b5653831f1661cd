//! Generates documents from a program or a file.

use crate::file::{Encoded, FileSource};
use crate::{Identity, Program};

/// A source of documents.
#[derive(Clone, Debug)]
pub enum Source {
    /// A compiled template: any number has a document.
    Program(Program),
    /// The documents of a file.
    File(FileSource),
}

impl Source {
    /// Appends the BSON of document `number`.
    #[inline]
    pub fn encode(&self, number: u64, identity: &Identity, out: &mut Vec<u8>) -> Encoded {
        match self {
            Self::Program(program) => {
                program.encode(number, identity, out);
                Encoded::Document
            }
            Self::File(file) => file.encode(number, identity, out),
        }
    }

    /// Appends the BSON of a version of document `number`. Version 0 is the document of [`Source::encode`].
    /// The versions of a file's record differ only in their stamps.
    #[inline]
    pub fn encode_version(
        &self,
        version: u32,
        number: u64,
        identity: &Identity,
        out: &mut Vec<u8>,
    ) -> Encoded {
        match self {
            Self::Program(program) => {
                program.encode_version(version, number, identity, out);
                Encoded::Document
            }
            Self::File(file) => file.encode(number, identity, out),
        }
    }

    /// The least and the largest size of a document, in bytes.
    #[must_use]
    pub fn len_bounds(&self) -> (usize, usize) {
        match self {
            Self::Program(program) => program.len_bounds(),
            Self::File(file) => file.len_bounds(),
        }
    }

    /// The number of documents in the file; `None` for a program.
    #[must_use]
    pub fn records(&self) -> Option<u64> {
        match self {
            Self::Program(_) => None,
            Self::File(file) => Some(file.records()),
        }
    }

    /// The count of numbers that have a document; `None` for an endless source (a program, or a repeated file).
    #[must_use]
    pub fn documents_max(&self) -> Option<u64> {
        match self {
            Self::Program(_) => None,
            Self::File(file) => file.documents_max(),
        }
    }
}

impl From<Program> for Source {
    fn from(program: Program) -> Self {
        Self::Program(program)
    }
}

impl From<FileSource> for Source {
    fn from(file: FileSource) -> Self {
        Self::File(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Send + Sync + 'static>() {}

    #[test]
    fn threads_may_share_sources() {
        check::<Source>();
        check::<Program>();
        check::<FileSource>();
    }
}
