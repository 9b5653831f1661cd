//! Reads paths in any case, and with a slash at their end, as SciCat does.

/// The fixed segments in lower case that open a path: `/api/v3/datasets`.
const OPENING: [&str; 10] =
    ["api", "v3", "v4", "auth", "users", "datasets", "origdatablocks", "attachments", "health", "history"];
/// The fixed segments in the position of a PID or another key: `/api/v3/datasets/count`.
const BESIDES_KEYS: [&str; 14] = [
    "login",
    "logout",
    "whoami",
    "oidc",
    "my",
    "isvalid",
    "fullquery",
    "fullfacet",
    "findone",
    "count",
    "public",
    "metadatakeys",
    "bulk",
    "stream",
];
/// The fixed segments that follow a key: `/api/v3/datasets/{pid}/origdatablocks`.
const AFTER_KEYS: [&str; 13] = [
    "self",
    "identity",
    "useridentity",
    "origdatablocks",
    "datablocks",
    "attachments",
    "datasetlifecycle",
    "count",
    "thumbnail",
    "size",
    "verify",
    "isvalid",
    "callback",
];
/// The index of a key in a path that is split at its slashes.
const KEY_PLACE: usize = 4;

/// The path with fixed segments in lower case and no slash at the end. Other segments stay. `None` if nothing changes.
pub(super) fn canonical(path: &str) -> Option<String> {
    let trimmed = path.trim_end_matches('/');
    let segments: Vec<&str> = trimmed.split('/').collect();
    if !segments.get(1).is_some_and(|segment| segment.eq_ignore_ascii_case(OPENING[0])) {
        return None;
    }
    let is_public = segments.get(KEY_PLACE).is_some_and(|segment| segment.eq_ignore_ascii_case("public"));
    let read = |(place, segment): (usize, &&str)| -> String {
        let fixed = fixed(place, is_public).iter().find(|fixed| fixed.eq_ignore_ascii_case(segment));
        fixed.map_or(*segment, |fixed| fixed).to_owned()
    };
    let read = segments.iter().enumerate().map(read).collect::<Vec<_>>().join("/");
    (!read.is_empty() && read != path).then_some(read)
}

/// The fixed segments that may occur at an index.
fn fixed(place: usize, is_public: bool) -> &'static [&'static str] {
    match place {
        0..KEY_PLACE => &OPENING,
        KEY_PLACE => &BESIDES_KEYS,
        5 if is_public => &BESIDES_KEYS,
        _ => &AFTER_KEYS,
    }
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
            ("/api/v4/datasets/Public/findOne", Some("/api/v4/datasets/public/findone")),
            ("/api/v3/Health", Some("/api/v3/health")),
            ("/api/v3/datasets/PID.Prefix%2FAbc", None),
            ("/", None),
            ("/healthz", None),
        ] {
            assert_eq!(canonical(path).as_deref(), read, "{path}");
        }
    }

    #[test]
    fn a_pid_that_equals_a_fixed_segment_of_another_place_stays() {
        for path in [
            "/datasets/Users",
            "/api/v3/datasets/Size",
            "/api/v3/datasets/OrigDatablocks",
            "/api/v4/datasets/public/Self",
        ] {
            assert_eq!(canonical(path), None, "{path}");
        }
    }
}
