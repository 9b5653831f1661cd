//! Reads the size of one collection.

use bson::RawDocument;

use super::Product;
use super::field::count;

/// A collection's size as the server reports it. Unreported values are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionStats {
    /// Documents, from the server's metadata. After a crash the number may be wrong.
    pub documents: Option<u64>,
    /// Bytes of all documents, uncompressed.
    pub bytes: Option<u64>,
    /// Bytes that the collection takes on disk, compressed, without indexes.
    pub storage_bytes: Option<u64>,
    /// Indexes, the one on `_id` included.
    pub indexes: Option<u64>,
    /// Bytes that the indexes take on disk.
    pub index_bytes: Option<u64>,
}

/// Reads an answer to `collStats`. The embedded server derives the sizes on disk from the documents' own, so
/// these are absent.
pub(crate) fn read(stats: &RawDocument, product: Product) -> CollectionStats {
    let on_disk = |name| count(stats, &[name]).filter(|_| product != Product::SecantusDb);
    CollectionStats {
        documents: count(stats, &["count"]),
        bytes: count(stats, &["size"]),
        storage_bytes: on_disk("storageSize"),
        indexes: count(stats, &["nindexes"]),
        index_bytes: on_disk("totalIndexSize"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn derived_sizes_on_disk_are_absent() {
        let stats = rawdoc! {"count": 300, "size": 41_100, "storageSize": 41_100, "nindexes": 1, "totalIndexSize": 3900};
        let all = read(&stats, Product::MongoDb);
        assert_eq!(
            (all.documents, all.storage_bytes, all.index_bytes),
            (Some(300), Some(41_100), Some(3900))
        );
        let some = read(&stats, Product::SecantusDb);
        assert_eq!((some.bytes, some.storage_bytes, some.index_bytes), (Some(41_100), None, None));
    }
}
