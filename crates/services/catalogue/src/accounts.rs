//! Reads functional accounts and checks their passwords.

use std::collections::HashMap;

use ring::digest::{SHA256, digest};
use serde::Deserialize;

use crate::access::User;

/// The group of accounts that may see everything, in SciCat's configuration.
const GLOBAL: &str = "globalaccess";

/// The functional accounts, by name.
#[derive(Default)]
pub struct Accounts(HashMap<String, Account>);

struct Account {
    /// The hash, because comparing it reveals nothing about the password.
    password: [u8; 32],
    user: User,
}

/// An account as in `functionalAccounts.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    username: String,
    #[serde(default)]
    email: String,
    password: String,
    #[serde(default)]
    role: Role,
    #[serde(default)]
    global: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Role {
    One(String),
    Many(Vec<String>),
}

impl Default for Role {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Accounts {
    /// Reads `functionalAccounts.json`. An error contains no password.
    ///
    /// # Errors
    /// The text is no list of accounts, or an account has no name, no password or the name of another.
    pub fn read(json: &str) -> Result<Self, String> {
        let typed: Vec<Typed> = serde_json::from_str(json).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!(
                "line {line}, column {column}: write a list of {{username, email, password, role, global}}"
            )
        })?;
        let mut accounts = HashMap::new();
        for account in typed {
            let name = account.username.clone();
            if name.is_empty() || account.password.is_empty() {
                return Err(format!("the account `{name}` needs a username and a password"));
            }
            if accounts.insert(name.clone(), account.build()).is_some() {
                return Err(format!("the account `{name}` appears twice: remove one"));
            }
        }
        Ok(Self(accounts))
    }

    /// The user with this name and password.
    pub fn login(&self, username: &str, password: &str) -> Option<&User> {
        let hashed = hash(password);
        let account = self.0.get(username)?;
        (account.password == hashed).then_some(&account.user)
    }
}

impl Typed {
    fn build(self) -> Account {
        let mut groups = match self.role {
            Role::One(group) => vec![group],
            Role::Many(groups) => groups,
        };
        if self.global {
            groups.push(GLOBAL.to_owned());
        }
        let user = User { id: id(&self.username), username: self.username, email: self.email, groups };
        Account { password: hash(&self.password), user }
    }
}

/// The key of a user, in the form of SciCat's keys: 24 hex digits.
fn id(username: &str) -> String {
    hash(username)[..12].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"[
        {"username": "admin", "email": "a@x", "password": "secret", "role": "admin", "global": true},
        {"username": "ingestor", "email": "i@x", "password": "hunter2", "role": ["g1", "g2"], "global": false}
    ]"#;

    #[test]
    fn an_account_logs_in_with_its_password_only() {
        let accounts = Accounts::read(FILE).unwrap();
        let user = accounts.login("admin", "secret").unwrap();
        assert_eq!((user.groups.clone(), user.id.len()), (vec!["admin".into(), GLOBAL.into()], 24));
        assert_eq!(accounts.login("ingestor", "hunter2").unwrap().groups, ["g1", "g2"]);
        for (name, password) in
            [("admin", "hunter2"), ("admin", ""), ("", ""), ("nobody", "secret"), ("Admin", "secret")]
        {
            assert!(accounts.login(name, password).is_none(), "{name} {password}");
        }
    }

    #[test]
    fn an_invalid_file_is_refused_without_its_passwords() {
        for file in [
            r#"{"username": "a", "password": "hunter2"}"#,
            r#"[{"username": "a", "password": {"hunter2": 1}}]"#,
            r#"[{"username": "a", "password": "hunter2", "hunter2": 1}]"#,
            r#"[{"username": "", "password": "hunter2"}]"#,
            r#"[{"username": "a", "password": ""}]"#,
            r#"[{"username": "a", "password": "hunter2"}, {"username": "a", "password": "hunter2"}]"#,
        ] {
            let error = Accounts::read(file).err().unwrap();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
