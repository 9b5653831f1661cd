//! Reads functional accounts and checks their passwords.

use std::collections::HashMap;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::access::{Strategy, User};
use crate::refusal::shortened;

/// The group of accounts that may see everything, in SciCat's configuration.
const GLOBAL: &str = "globalaccess";

/// The bytes of names and groups in a token: encoded, with the other claims, they take less than 16 KiB.
const USER_BYTES_MAX: usize = 11 << 10;

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

/// An account in the settings. It holds no password, so settings may be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hashed {
    /// The name.
    pub username: String,
    /// The e-mail address.
    #[serde(default)]
    pub email: String,
    /// The SHA-256 of the password, as 64 hex digits. Choose a long random password, because the hash has no salt.
    pub password_sha256: String,
    /// The group, or the groups.
    #[serde(default)]
    pub role: Role,
}

/// A group, or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Role {
    /// A group.
    One(String),
    /// Several.
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
            let account = account.build();
            fits(&account.user)?;
            if accounts.insert(name.clone(), account).is_some() {
                return Err(format!("the account `{name}` appears twice: remove one"));
            }
        }
        Ok(Self(accounts))
    }

    /// Adds an account of the settings.
    ///
    /// # Errors
    /// The account has no name or no hash, or its name exists.
    pub fn add(&mut self, account: &Hashed) -> Result<(), String> {
        let name = &account.username;
        let password = hex(&account.password_sha256)
            .ok_or_else(|| format!("the account `{name}` needs password_sha256 with 64 hex digits"))?;
        if name.is_empty() {
            return Err("an account needs a username".into());
        }
        let groups = account.role.clone().groups();
        let (id, email, strategy) = (id(name), account.email.clone(), Strategy::Local);
        let user = User { id, username: name.clone(), email, groups, strategy };
        fits(&user)?;
        if self.0.insert(name.clone(), Account { password, user }).is_some() {
            return Err(format!("the account `{name}` appears twice: remove one"));
        }
        Ok(())
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
        let mut groups = self.role.groups();
        if self.global {
            groups.push(GLOBAL.to_owned());
        }
        let (id, strategy) = (id(&self.username), Strategy::Local);
        let user = User { id, username: self.username, email: self.email, groups, strategy };
        Account { password: hash(&self.password), user }
    }
}

impl Role {
    fn groups(self) -> Vec<String> {
        match self {
            Self::One(group) => vec![group],
            Self::Many(groups) => groups,
        }
    }
}

/// Refuses a user whose token would be too long for the service.
pub(crate) fn fits(user: &User) -> Result<(), String> {
    let bytes = serde_json::to_vec(&(&user.username, &user.email, &user.groups))
        .map_or(usize::MAX, |json| json.len());
    if bytes <= USER_BYTES_MAX {
        return Ok(());
    }
    let name = shortened(&user.username);
    Err(format!(
        "the account `{name}` has {bytes} bytes of groups and names: its token holds {USER_BYTES_MAX} at most"
    ))
}

/// The 32 bytes of 64 hex digits.
fn hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}

/// The key of a user, in the form of SciCat's keys: 24 hex digits.
pub(crate) fn id(name: &str) -> String {
    hash(name)[..12].iter().map(|byte| format!("{byte:02x}")).collect()
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
    fn an_account_of_the_settings_holds_only_the_hash_of_its_password() {
        let hashed = |name: &str, hash: &str| {
            let role = Role::One("g".into());
            Hashed { username: name.into(), email: String::new(), password_sha256: hash.into(), role }
        };
        let mut accounts = Accounts::read(FILE).unwrap();
        let of_test = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        accounts.add(&hashed("ann", of_test)).unwrap();
        assert_eq!(accounts.login("ann", "test").unwrap().groups, ["g"]);
        assert!(accounts.login("ann", of_test).is_none());
        let plus = format!("+{}", &of_test[1..]);
        for (name, hash) in [("ann", of_test), ("", of_test), ("bob", "9f"), ("bob", &plus), ("bob", "")] {
            assert!(accounts.add(&hashed(name, hash)).is_err(), "{name} {hash}");
        }
    }

    #[test]
    fn an_account_whose_token_would_be_too_long_is_refused() {
        let file = |groups: usize| {
            let groups: Vec<String> = (0..groups).map(|n| format!("group-{n:06}")).collect();
            serde_json::json!([{"username": "a", "password": "p", "role": groups}]).to_string()
        };
        let accounts = Accounts::read(&file(700)).unwrap();
        let user = accounts.login("a", "p").unwrap();
        let sessions = plimsoll_service::security::Sessions::new(&[7; 32]).unwrap();
        let claims = serde_json::json!([user.username, user.groups, "x".repeat(400)]);
        assert!(sessions.sign(&claims).is_some());
        assert!(Accounts::read(&file(2_000)).err().unwrap().contains("groups"));
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
