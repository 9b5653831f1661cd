//! Computes the size of a collection from plausible reports of the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The size of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// Bytes of all documents, uncompressed.
    pub data_bytes: Option<u64>,
    /// Average bytes of a document, uncompressed.
    pub document_bytes: Option<f64>,
    /// Bytes on disk without indexes, compressed. Writes since the storage engine's last checkpoint may be
    /// missing.
    pub storage_bytes: Option<u64>,
    /// Free bytes among those, which the server can use again.
    pub free_bytes: Option<u64>,
    /// Bytes of all indexes on disk.
    pub index_bytes: Option<u64>,
    /// `data_bytes` ÷ `storage_bytes`.
    pub compression: Option<f64>,
}

/// Sizes as a server reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Documents.
    pub documents: Option<u64>,
    /// Bytes of all documents.
    pub data_bytes: Option<u64>,
    /// Bytes on disk.
    pub storage_bytes: Option<u64>,
    /// Free bytes among the bytes on disk.
    pub free_bytes: Option<u64>,
    /// Bytes of all indexes.
    pub index_bytes: Option<u64>,
}

impl Reported {
    /// Whether its sizes on disk are measured. A server that reports exactly the uncompressed size as the size on disk has
    /// invented all sizes on disk, also those of its indexes.
    pub fn knows_disk(&self) -> bool {
        self.storage_bytes.is_some() && self.storage_bytes != self.data_bytes
    }
}

impl Size {
    /// The plausible part of a report.
    pub fn of(reported: &Reported) -> Self {
        let on_disk = |bytes: Option<u64>| bytes.filter(|_| reported.knows_disk());
        let storage_bytes = on_disk(reported.storage_bytes);
        Self {
            data_bytes: reported.data_bytes,
            document_bytes: ratio(reported.data_bytes, reported.documents),
            storage_bytes,
            free_bytes: on_disk(reported.free_bytes),
            index_bytes: on_disk(reported.index_bytes),
            compression: ratio(reported.data_bytes, storage_bytes).filter(|ratio| *ratio > 0.0),
        }
    }
}

fn ratio(above: Option<u64>, below: Option<u64>) -> Option<f64> {
    below.filter(|below| *below > 0).and_then(|below| Some(above? as f64 / below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(data: u64, storage: u64) -> Reported {
        Reported {
            documents: Some(10),
            data_bytes: Some(data),
            storage_bytes: Some(storage),
            free_bytes: Some(1),
            index_bytes: Some(2),
        }
    }

    #[test]
    fn the_compression_is_data_divided_by_storage() {
        let size = Size::of(&reported(6450, 1000));
        assert_eq!((size.compression, size.document_bytes), (Some(6.45), Some(645.0)));
        assert_eq!((size.storage_bytes, size.free_bytes, size.index_bytes), (Some(1000), Some(1), Some(2)));
    }

    #[test]
    fn sizes_on_disk_that_repeat_the_size_of_the_data_are_ignored() {
        let size = Size::of(&reported(41_100, 41_100));
        assert_eq!((size.data_bytes, size.document_bytes), (Some(41_100), Some(4110.0)));
        assert_eq!((size.storage_bytes, size.free_bytes, size.index_bytes), (None, None, None));
        assert_eq!(size.compression, None);
    }

    #[test]
    fn an_empty_collection_has_no_compression_and_no_average() {
        let size = Size::of(&Reported { documents: Some(0), ..reported(0, 4096) });
        assert_eq!((size.storage_bytes, size.compression, size.document_bytes), (Some(4096), None, None));
        assert_eq!(Size::of(&Reported::default()), Size::default());
    }
}
