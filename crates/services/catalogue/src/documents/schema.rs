//! Lists the fields of a dataset and their types.

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A date.
    Date,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// A list of texts.
    Texts,
    /// A list of objects.
    Objects,
    /// An object with free keys.
    Free,
    /// The object `datasetlifecycle`.
    Lifecycle,
}

/// The fields of a dataset.
pub const DATASET: &[(&str, Kind)] = &[
    ("pid", Kind::Text),
    ("datasetName", Kind::Text),
    ("type", Kind::Text),
    ("version", Kind::Text),
    ("owner", Kind::Text),
    ("ownerEmail", Kind::Text),
    ("orcidOfOwner", Kind::Text),
    ("contactEmail", Kind::Text),
    ("principalInvestigators", Kind::Texts),
    ("sourceFolder", Kind::Text),
    ("sourceFolderHost", Kind::Text),
    ("creationLocation", Kind::Text),
    ("dataFormat", Kind::Text),
    ("runNumber", Kind::Text),
    ("size", Kind::Number),
    ("packedSize", Kind::Number),
    ("numberOfFiles", Kind::Number),
    ("numberOfFilesArchived", Kind::Number),
    ("creationTime", Kind::Date),
    ("startTime", Kind::Date),
    ("endTime", Kind::Date),
    ("createdAt", Kind::Date),
    ("updatedAt", Kind::Date),
    ("keywords", Kind::Texts),
    ("description", Kind::Text),
    ("comment", Kind::Text),
    ("license", Kind::Text),
    ("classification", Kind::Text),
    ("validationStatus", Kind::Text),
    ("techniques", Kind::Objects),
    ("dataQualityMetrics", Kind::Number),
    ("usedSoftware", Kind::Texts),
    ("jobParameters", Kind::Free),
    ("jobLogData", Kind::Text),
    ("proposalIds", Kind::Texts),
    ("sampleIds", Kind::Texts),
    ("instrumentIds", Kind::Texts),
    ("inputDatasets", Kind::Texts),
    ("relationships", Kind::Objects),
    ("ownerGroup", Kind::Text),
    ("accessGroups", Kind::Texts),
    ("instrumentGroup", Kind::Text),
    ("isPublished", Kind::Flag),
    ("sharedWith", Kind::Texts),
    ("createdBy", Kind::Text),
    ("updatedBy", Kind::Text),
    ("scientificMetadata", Kind::Free),
    ("scientificMetadataSchema", Kind::Text),
    ("scientificMetadataValid", Kind::Flag),
    ("datasetlifecycle", Kind::Lifecycle),
];

/// The fields of `datasetlifecycle`.
pub const LIFECYCLE: &[(&str, Kind)] = &[
    ("archivable", Kind::Flag),
    ("retrievable", Kind::Flag),
    ("publishable", Kind::Flag),
    ("dateOfDiskPurging", Kind::Date),
    ("archiveRetentionTime", Kind::Date),
    ("dateOfPublishing", Kind::Date),
    ("publishedOn", Kind::Date),
    ("isOnCentralDisk", Kind::Flag),
    ("archiveStatusMessage", Kind::Text),
    ("retrieveStatusMessage", Kind::Text),
    ("archiveReturnMessage", Kind::Free),
    ("retrieveReturnMessage", Kind::Free),
    ("exportedTo", Kind::Text),
    ("retrieveIntegrityCheck", Kind::Flag),
    ("storageLocation", Kind::Text),
];

/// The properties of the objects in lists, and of a history entry.
pub const NESTED: &[&str] = &[
    "name",
    "relationship",
    "identifier",
    "identifierType",
    "entityType",
    "externalId",
    "history",
    "previousValue",
    "currentValue",
];

/// The names of version 3 for the first element of a list, and the list.
pub const SINGULAR: &[(&str, &str)] = &[
    ("proposalId", "proposalIds"),
    ("sampleId", "sampleIds"),
    ("instrumentId", "instrumentIds"),
    ("principalInvestigator", "principalInvestigators"),
    ("investigator", "principalInvestigators"),
];

/// The type of a field of a dataset.
pub fn kind(name: &str) -> Option<Kind> {
    find(DATASET, name)
}

/// The type of a field of `datasetlifecycle`.
pub fn lifecycle_kind(name: &str) -> Option<Kind> {
    find(LIFECYCLE, name)
}

fn find(fields: &[(&str, Kind)], name: &str) -> Option<Kind> {
    fields.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// The list behind a name of version 3, or the name itself.
pub fn plural(name: &str) -> &str {
    SINGULAR.iter().find(|(one, _)| *one == name).map_or(name, |(_, many)| many)
}
