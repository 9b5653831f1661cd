//! Reads paths in any case, and with a slash at their end, as SciCat does.

/// The fixed segments of all paths, in lower case.
const FIXED: [&str; 32] = [
    "api",
    "v3",
    "v4",
    "auth",
    "login",
    "logout",
    "whoami",
    "users",
    "my",
    "self",
    "identity",
    "useridentity",
    "datasets",
    "isvalid",
    "fullquery",
    "fullfacet",
    "findone",
    "count",
    "public",
    "metadatakeys",
    "origdatablocks",
    "attachments",
    "datasetlifecycle",
    "size",
    "verify",
    "history",
    "health",
    "settings",
    "thumbnail",
    "datablocks",
    "stream",
    "bulk",
];

/// The path with fixed segments in lower case and no slash at the end; `None` if it is so already. Other segments stay.
pub(super) fn canonical(path: &str) -> Option<String> {
    let trimmed = path.trim_end_matches('/');
    let fixed = |segment: &str| FIXED.iter().find(|fixed| fixed.eq_ignore_ascii_case(segment)).copied();
    let is_canonical = trimmed.len() == path.len()
        && trimmed.split('/').all(|segment| fixed(segment).is_none_or(|it| it == segment));
    if is_canonical || trimmed.is_empty() {
        return None;
    }
    let segments = trimmed.split('/').map(|segment| fixed(segment).unwrap_or(segment));
    Some(segments.collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_segments_are_read_in_any_case_and_others_stay() {
        for (path, read) in [
            ("/api/v3/Datasets", Some("/api/v3/datasets")),
            ("/api/v3/Datasets/", Some("/api/v3/datasets")),
            ("/api/v3/OrigDatablocks/isValid", Some("/api/v3/origdatablocks/isvalid")),
            (
                "/api/v3/Datasets/PID.Prefix%2FAbc/OrigDatablocks",
                Some("/api/v3/datasets/PID.Prefix%2FAbc/origdatablocks"),
            ),
            ("/api/v3/datasets/PID.Prefix%2FAbc", None),
            ("/", None),
            ("/healthz", None),
        ] {
            assert_eq!(canonical(path).as_deref(), read, "{path}");
        }
    }
}
