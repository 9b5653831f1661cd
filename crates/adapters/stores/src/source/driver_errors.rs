//! Classifies the driver's errors of a change stream as transient or permanent.

use mongodb::error::{Error, ErrorKind};
use plimsoll_deployment::driver_message;
use plimsoll_pipeline::SourceError;

/// Codes after which a stream cannot resume: ChangeStreamFatalError, ChangeStreamHistoryLost, InvalidResumeToken, and errors
/// of the command or the user.
const FATAL: &[i32] = &[280, 286, 260, 13, 18, 20, 26, 40, 73, 40573, 40324, 50811];
/// BSONObjectTooLarge: it recurs whenever the stream is opened at that position.
const TOO_LARGE: i32 = 10334;

/// Succeeds for a transient error, such as an unavailable server or a stepdown.
///
/// # Errors
/// A permanent error, with a remedy.
pub(super) fn check(error: &Error) -> Result<(), SourceError> {
    if is_too_large(error) {
        return Err(SourceError::Failed(describe(error)));
    }
    if is_fatal(error) {
        return Err(SourceError::Failed(format!(
            "{}; if the server no longer has that part of its history, the changes in between are lost: choose another \
             name for the pipeline, then read the collection with a scan, preferably both to another destination",
            driver_message(error)
        )));
    }
    Ok(())
}

/// The error of a stream that cannot be opened.
pub(super) fn refused(error: &Error) -> SourceError {
    SourceError::Refused(unread(error))
}

/// The message while the stream is retried.
pub(super) fn unread(error: &Error) -> String {
    format!("the changes cannot be read: {}", describe(error))
}

/// The error message, with advice for a change that is too large.
fn describe(error: &Error) -> String {
    let message = driver_message(error);
    if is_too_large(error) {
        return format!(
            "{message}; a change is larger than 16 MB, the limit of a server's reply (an update contains the whole document and the \
             changed fields): drop unneeded fields with `stages`, such as `{{$unset: updateDescription}}`, and the pipeline \
             resumes there"
        );
    }
    message
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
        super::check(&error(code)).err().map(|error| error.to_string())
    }

    #[test]
    fn transient_errors_are_retried_and_permanent_ones_come_with_a_remedy() {
        // PrimarySteppedDown, Interrupted, NotWritablePrimary.
        for transient in [189, 11601, 10107] {
            assert_eq!(check(transient), None, "{transient}");
        }
        assert!(check(286).unwrap().contains("no longer has that part of its history"));
        let words = check(TOO_LARGE).unwrap();
        assert!(
            words.contains("`{$unset: updateDescription}`") && !words.contains("no longer has"),
            "{words}"
        );
        let words = refused(&error(TOO_LARGE)).to_string();
        assert!(words.starts_with("the changes cannot be read: ") && words.contains("16 MB"), "{words}");
    }
}
