//! What the driver says of a change stream: what passes, and what ends the source.

use mongodb::error::{Error, ErrorKind};
use plimsoll_pipeline::SourceError;

/// Codes after which a stream cannot go on where it was: ChangeStreamFatalError, ChangeStreamHistoryLost, InvalidResumeToken,
/// and what is wrong with a command or the user.
const FATAL: &[i32] = &[280, 286, 260, 13, 18, 20, 26, 40, 73, 40573, 40324, 50811];
/// BSONObjectTooLarge: it comes again however often the stream is opened at that place.
const TOO_LARGE: i32 = 10334;

/// Nothing, if it passes by itself: a server that is away, a primary that steps down.
///
/// # Errors
/// What will not pass, and what to do.
pub(super) fn judge(error: &Error) -> Result<(), SourceError> {
    if is_too_large(error) {
        return Err(SourceError::Failed(said(error)));
    }
    if is_fatal(error) {
        return Err(SourceError::Failed(format!(
            "{error}; if the server has forgotten that part of its history, the changes in between are lost: start under another \
             name of the pipeline, then read the collection anew with a scan, best both to another destination"
        )));
    }
    Ok(())
}

/// The refusal of a stream that cannot be opened.
pub(super) fn refused(error: &Error) -> SourceError {
    SourceError::Refused(unread(error))
}

/// What is said while it is tried again.
pub(super) fn unread(error: &Error) -> String {
    format!("the changes cannot be read: {}", said(error))
}

/// The error in words, and what to do about a change that is too large.
fn said(error: &Error) -> String {
    if is_too_large(error) {
        return format!(
            "{error}; a change is larger than the 16 MB that the server gives at once (an update comes with the whole document besides \
             what was changed): leave out with `stages` what is not needed, such as `{{$unset: updateDescription}}`, and the pipeline \
             goes on there"
        );
    }
    error.to_string()
}

fn is_too_large(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Command(command) if command.code == TOO_LARGE)
}

fn is_fatal(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Command(command) => FATAL.contains(&command.code),
        ErrorKind::Authentication { .. } | ErrorKind::InvalidArgument { .. } => true,
        ErrorKind::BsonDeserialization(_) | ErrorKind::MissingResumeToken => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    fn error(code: i32) -> Error {
        let command = doc! {"code": code, "codeName": "Name", "errmsg": "words"};
        let command: mongodb::error::CommandError = bson::deserialize_from_document(command).unwrap();
        Error::from(ErrorKind::Command(command))
    }

    fn check(code: i32) -> Option<String> {
        judge(&error(code)).err().map(|error| error.to_string())
    }

    #[test]
    fn what_passes_is_waited_for_and_the_rest_says_what_to_do() {
        // PrimarySteppedDown, Interrupted, NotWritablePrimary.
        for passing in [189, 11601, 10107] {
            assert_eq!(check(passing), None, "{passing}");
        }
        assert!(check(286).unwrap().contains("has forgotten that part of its history"));
        let words = check(TOO_LARGE).unwrap();
        assert!(words.contains("`{$unset: updateDescription}`") && !words.contains("forgotten"), "{words}");
        let words = refused(&error(TOO_LARGE)).to_string();
        assert!(words.starts_with("the changes cannot be read: ") && words.contains("16 MB"), "{words}");
    }
}
