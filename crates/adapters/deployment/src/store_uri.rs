//! Checks a URI for clients that set their own concerns: a store that writes with a journaled majority, and commands that read the
//! primary.

use crate::error::Error;
use crate::uri::{pool_warnings, read_options, write_concern_of};

/// Refuses a write concern in a URI that is weaker than a journaled majority, for a store that always writes with one.
///
/// # Errors
/// If the URI names a weaker write concern, or is not a connection string.
pub fn check_durable(uri: &str) -> Result<(), Error> {
    if write_concern_of(uri)?.is_none_or(|concern| concern.is_within_durable()) {
        return Ok(());
    }
    Err(Error::Refused(
        "the server's address names a write concern, but the store writes with a journaled majority: remove `w` and `journal` from the \
         address"
            .to_owned(),
    ))
}

/// One sentence for each option of a URI that has no effect on a store that writes with a journaled majority.
pub fn warnings_of_store(uri: &str) -> Vec<String> {
    let limit = write_concern_of(uri).ok().flatten().and_then(|concern| concern.timeout);
    let limit = limit.map(|_| {
        "the option `wTimeoutMS` of the address has no effect here: the store waits for a journaled majority"
            .to_owned()
    });
    warnings_of_reads(uri).into_iter().chain(limit).chain(pool_warnings(uri)).collect()
}

/// One sentence for each option of a URI that chooses a member or a version of the data, for a command that reads the primary's own
/// data.
pub fn warnings_of_reads(uri: &str) -> Vec<String> {
    let said = |name| {
        format!(
            "the option `{name}` of the address has no effect here: Plimsoll reads the primary's own data"
        )
    };
    read_options(uri).into_iter().map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_refuses_a_weaker_write_concern_and_names_options_without_effect() {
        for option in ["w=1", "journal=false", "w=two", "w=majority&journal=false"] {
            let refusal = check_durable(&format!("mongodb://a/?{option}")).unwrap_err();
            assert!(refusal.is_of_the_uri(), "{refusal:?}");
            assert!(refusal.to_string().contains("remove `w` and `journal`"), "{option}: {refusal}");
        }
        for option in ["", "w=majority", "journal=true", "wTimeoutMS=5", "readPreference=secondary"] {
            check_durable(&format!("mongodb://a/?{option}")).unwrap();
        }
        let uri = "mongodb://a/?readPreference=nearest&readConcernLevel=local&wTimeoutMS=5&maxPoolSize=2";
        let names = ["readPreference", "readConcernLevel", "wTimeoutMS", "maxPoolSize"];
        let said = warnings_of_store(uri);
        assert_eq!(said.len(), names.len(), "{said:?}");
        for (sentence, name) in said.iter().zip(names) {
            assert!(sentence.contains(&format!("`{name}` of the address has no effect here")), "{sentence}");
        }
        assert_eq!(warnings_of_store("mongodb://a/?w=majority&readPreference=primary"), [""; 0]);
    }
}
