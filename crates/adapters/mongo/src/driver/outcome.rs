//! Translates the official driver's results into outcomes.

use mongodb::error::{Error, ErrorKind, InsertManyError, UNKNOWN_TRANSACTION_COMMIT_RESULT, WriteFailure};
use mongodb::options::{
    Acknowledgment, ReadPreference, ReadPreferenceOptions, SelectionCriteria, WriteConcern,
};
use plimsoll_deployment::driver_message;
use plimsoll_measure::first_error::FirstError;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_wire::{Class, Outcome as Wire, ReadMode, W};

use crate::operation_builder::Detailed;
use crate::outcome::{outcome, rejection};

impl Detailed for Error {
    fn detail(&self) -> FirstError {
        match self.kind.as_ref() {
            ErrorKind::Command(error) => FirstError::new(error.code, &error.code_name, &error.message),
            ErrorKind::Write(WriteFailure::WriteError(error)) => {
                FirstError::new(error.code, error.code_name.as_deref().unwrap_or_default(), &error.message)
            }
            ErrorKind::Write(WriteFailure::WriteConcernError(error)) => {
                FirstError::new(error.code, &error.code_name, &error.message)
            }
            ErrorKind::InsertMany(many) => {
                first_of_many(many).unwrap_or_else(|| FirstError::new(0, "", driver_message(self)))
            }
            _ => FirstError::new(0, "", driver_message(self)),
        }
    }
}

/// The write error of the first failed document, or else the write concern error.
fn first_of_many(many: &InsertManyError) -> Option<FirstError> {
    let refused = many.write_errors.iter().flatten().min_by_key(|error| error.index);
    let refused = refused.map(|error| {
        FirstError::new(error.code, error.code_name.as_deref().unwrap_or_default(), &error.message)
    });
    let concern = many.write_concern_error.as_ref();
    refused.or_else(|| concern.map(|error| FirstError::new(error.code, &error.code_name, &error.message)))
}

pub(super) fn of_error(error: &Error) -> Outcome {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(error)) => outcome(Wire::of_write_error(error.code)),
        ErrorKind::Write(WriteFailure::WriteConcernError(_)) => Outcome::Unknown(Doubt::WriteConcern),
        ErrorKind::Command(error) => outcome(Wire::of_command_error(error.code)),
        ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } => Outcome::Unknown(Doubt::ConnectionLost),
        ErrorKind::ServerSelection { .. } => Outcome::Rejected(Rejection::NotTried),
        _ => Outcome::Unknown(Doubt::Interrupted),
    }
}

/// The outcome of a failed read, or of a failed operation in a transaction. A refused read was not done.
/// A refused insert ended its transaction, regardless of the document that failed.
pub(super) fn of_read_error(error: &Error) -> Outcome {
    match error.kind.as_ref() {
        ErrorKind::Command(error) => Outcome::Rejected(rejection(Class::of_code(error.code))),
        ErrorKind::InsertMany(many) => match first_of_many(many) {
            Some(first) => Outcome::Rejected(rejection(Class::of_code(first.code.unwrap_or_default()))),
            None => of_error(error),
        },
        _ => of_error(error),
    }
}

/// The outcome of a transaction whose commit failed. The driver has sent the commit twice before it reports this.
pub(super) fn of_commit(error: &Error) -> Outcome {
    if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
        return match of_error(error) {
            Outcome::Unknown(doubt) => Outcome::Unknown(doubt),
            _ => Outcome::Unknown(Doubt::Interrupted),
        };
    }
    of_read_error(error)
}

pub(super) fn write_concern(lean: &plimsoll_wire::WriteConcern) -> WriteConcern {
    let mut concern = WriteConcern::default();
    concern.w = Some(match &lean.w {
        W::Number(number) => (*number).into(),
        W::Majority => Acknowledgment::Majority,
        W::Tag(tag) => Acknowledgment::Custom(tag.clone()),
    });
    concern.journal = lean.j;
    concern.w_timeout = lean.timeout_ms.map(|ms| std::time::Duration::from_millis(u64::from(ms)));
    concern
}

pub(super) fn selection_criteria(lean: &plimsoll_wire::ReadPreference) -> SelectionCriteria {
    let mut options = ReadPreferenceOptions::default();
    if !lean.tag_sets.is_empty() {
        options.tag_sets =
            Some(lean.tag_sets.iter().map(|tags| tags.clone().into_iter().collect()).collect());
    }
    options.max_staleness =
        lean.max_staleness_s.map(|seconds| std::time::Duration::from_secs(u64::from(seconds)));
    let options = Some(options);
    SelectionCriteria::ReadPreference(match lean.mode {
        ReadMode::Primary => ReadPreference::Primary,
        ReadMode::PrimaryPreferred => ReadPreference::PrimaryPreferred { options },
        ReadMode::Secondary => ReadPreference::Secondary { options },
        ReadMode::SecondaryPreferred => ReadPreference::SecondaryPreferred { options },
        ReadMode::Nearest => ReadPreference::Nearest { options },
    })
}

/// The driver's error for a refused command.
#[cfg(test)]
pub(super) fn command_error(code: i32) -> Error {
    let response = mongodb::bson::doc! {"ok": 0, "code": code, "errmsg": "no", "codeName": "No"};
    let command: mongodb::error::CommandError = bson::deserialize_from_document(response).unwrap();
    Error::from(ErrorKind::Command(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_without_a_server_is_told_in_our_words() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(async {
            let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50";
            let client = mongodb::Client::with_uri_str(uri).await.unwrap();
            client.database("d").run_command(bson::doc! {"ping": 1}).await.unwrap_err()
        });
        assert_eq!(of_error(&error), Outcome::Rejected(Rejection::NotTried));
        let kept = format!("{:?}", error.detail());
        assert!(kept.contains("no server that fits the operation") && !kept.contains("Topology"), "{kept}");
    }

    /// The driver's error for an insert with these errors of its documents.
    fn insert_error(errors: bson::Bson, concern: bson::Bson) -> Error {
        let many = bson::doc! {"writeErrors": errors, "writeConcernError": concern};
        ErrorKind::InsertMany(bson::deserialize_from_document(many).unwrap()).into()
    }

    #[test]
    fn an_insert_in_a_transaction_is_refused_by_its_first_document_or_its_write_concern() {
        let many = bson::bson!([
            {"index": 3, "code": 121, "errmsg": "third"}, {"index": 1, "code": 11000, "codeName": "DuplicateKey", "errmsg": "first"},
        ]);
        let concern = bson::bson!({"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waited"});
        for (errors, class, shown) in [
            (many, Rejection::DuplicateKey, "11000 DuplicateKey: first"),
            (bson::Bson::Null, rejection(Class::of_code(64)), "64 WriteConcernFailed: waited"),
        ] {
            let error = insert_error(errors, concern.clone());
            assert_eq!(error.detail().to_string(), shown);
            assert_eq!(of_read_error(&error), Outcome::Rejected(class), "{shown}");
        }
    }

    #[test]
    fn an_interrupted_command_leaves_its_documents_unknown() {
        for code in [11600, 11602, 91, 189, 50, 262] {
            assert_eq!(of_error(&command_error(code)), Outcome::Unknown(Doubt::Interrupted), "{code}");
        }
        assert_eq!(of_error(&command_error(10107)), Outcome::Rejected(Rejection::NotPrimary));
        assert_eq!(of_read_error(&command_error(50)), Outcome::Rejected(Rejection::Overload));
    }
}
