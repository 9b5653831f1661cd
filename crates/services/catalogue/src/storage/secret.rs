//! Keeps the secret of tokens, so that all instances on a database accept the same tokens.

use bson::spec::BinarySubtype;
use bson::{Binary, doc};
use mongodb::options::ReturnDocument;

use super::{Error, Store};

/// The key of the secret.
const KEY: &str = "tokens";

impl Store {
    /// The secret in the database. Without one, `fresh` is stored. If several instances start at once, one stores its secret for all.
    ///
    /// # Errors
    /// The server failed, or the stored secret is not binary.
    pub async fn shared_secret(&self, fresh: &[u8]) -> Result<Vec<u8>, Error> {
        let secret = Binary { subtype: BinarySubtype::Generic, bytes: fresh.to_vec() };
        let change = doc! {"$setOnInsert": {"secret": secret}};
        let found = self.secrets.find_one_and_update(doc! {"_id": KEY}, change);
        let found = found.upsert(true).return_document(ReturnDocument::After).await?.unwrap_or_default();
        found.get_binary_generic("secret").cloned().map_err(|_| {
            mongodb::error::Error::custom("TokenSecret holds no secret: remove its document".to_owned())
                .into()
        })
    }
}
