//! States the rules of reading, creating, changing and removing.

use bson::{Document, doc};

use super::caller::Caller;
use super::roles::{Roles, has};
use crate::Refusal;

/// The rules of a catalogue.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    roles: Roles,
}

/// The parts of a stored document that access depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// The group that owns it.
    pub owner_group: String,
    /// The groups that may read it.
    pub access_groups: Vec<String>,
    /// The e-mail addresses of users who may read it.
    pub shared_with: Vec<String>,
    /// Whether everyone may read it.
    pub is_published: bool,
}

/// A change of a stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Any field, its blocks and its attachments.
    Update,
    /// `datasetlifecycle` alone.
    Lifecycle,
    /// Its removal.
    Delete,
    /// The removal of one of its blocks.
    DeleteBlock,
}

impl Owned {
    /// Reads the parts of a stored document.
    pub fn of(document: &Document) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let list = document.get_array(name).into_iter().flatten();
            list.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        Self {
            owner_group: document.get_str("ownerGroup").unwrap_or_default().to_owned(),
            access_groups: texts("accessGroups"),
            shared_with: texts("sharedWith"),
            is_published: document.get_bool("isPublished").unwrap_or(false),
        }
    }
}

impl Rules {
    /// Rules with these roles.
    pub fn new(roles: Roles) -> Self {
        Self { roles }
    }

    /// The part of every query that the caller cannot change.
    pub fn read_filter(&self, caller: &Caller) -> Document {
        let published = doc! {"isPublished": true};
        let Some(user) = caller.user() else { return published };
        if has(caller, &self.roles.admin_groups) {
            return Document::new();
        }
        let mut readable = vec![published];
        if !user.groups.is_empty() {
            readable.push(doc! {"ownerGroup": {"$in": &user.groups}});
            readable.push(doc! {"accessGroups": {"$in": &user.groups}});
        }
        if !user.email.is_empty() {
            readable.push(doc! {"sharedWith": &user.email});
        }
        doc! {"$or": readable}
    }

    /// The groups whose data the caller may read; `None` for all groups.
    pub fn read_groups<'a>(&self, caller: &'a Caller) -> Option<&'a [String]> {
        let groups = caller.user().map_or(&[][..], |user| &user.groups);
        (!has(caller, &self.roles.admin_groups)).then_some(groups)
    }

    /// Whether the caller may read a document.
    ///
    /// # Errors
    /// [`Refusal::Foreign`].
    pub fn read(&self, caller: &Caller, owned: &Owned) -> Result<(), Refusal> {
        let is_shared = |email: &str| !email.is_empty() && owned.shared_with.iter().any(|it| it == email);
        let may = owned.is_published
            || has(caller, &self.roles.admin_groups)
            || owns(caller, &owned.owner_group)
            || owned.access_groups.iter().any(|group| caller.is_in(group))
            || caller.user().is_some_and(|user| is_shared(&user.email));
        allowed(may)
    }

    /// Whether the caller may create a dataset of a group, with a PID or without.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`] without a role; [`Refusal::Foreign`] for a group of others or an own PID.
    pub fn create(&self, caller: &Caller, owner_group: &str, pid: Option<&str>) -> Result<(), Refusal> {
        let roles = &self.roles;
        if self.is_privileged(caller) {
            return Ok(());
        }
        let (with_pid, without) =
            (has(caller, &roles.create_dataset_with_pid_groups), has(caller, &roles.create_dataset_groups));
        if !with_pid && !without {
            return Err(Refusal::Forbidden);
        }
        allowed(owns(caller, owner_group) && (with_pid || pid.is_none()))
    }

    /// Whether the caller may give a dataset to a group: the rule of creation, so that a change is no way round it.
    ///
    /// # Errors
    /// [`Refusal::Foreign`] for a group of others.
    pub fn give(&self, caller: &Caller, owner_group: &str) -> Result<(), Refusal> {
        allowed(self.is_privileged(caller) || owns(caller, owner_group))
    }

    /// Whether the caller may make datasets of any group.
    fn is_privileged(&self, caller: &Caller) -> bool {
        has(caller, &self.roles.admin_groups) || has(caller, &self.roles.create_dataset_privileged_groups)
    }

    /// Whether the caller may change a document.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`] for an anonymous caller, else [`Refusal::Foreign`].
    pub fn change(&self, caller: &Caller, owned: &Owned, change: Change) -> Result<(), Refusal> {
        if caller.user().is_none() {
            return Err(Refusal::Forbidden);
        }
        let (admin, delete) = (has(caller, &self.roles.admin_groups), has(caller, &self.roles.delete_groups));
        let owner = owns(caller, &owned.owner_group);
        let lifecycle =
            || has(caller, &self.roles.update_dataset_lifecycle_groups) && self.read(caller, owned).is_ok();
        allowed(match change {
            Change::Update => admin || owner,
            Change::Lifecycle => admin || owner || lifecycle(),
            Change::Delete => admin || delete,
            Change::DeleteBlock => delete,
        })
    }
}

/// Whether the caller is in the group that owns a document. A document without a group has no owner.
fn owns(caller: &Caller, owner_group: &str) -> bool {
    !owner_group.is_empty() && caller.is_in(owner_group)
}

fn allowed(may: bool) -> Result<(), Refusal> {
    if may { Ok(()) } else { Err(Refusal::Foreign) }
}

#[cfg(test)]
mod tests {
    use super::super::caller::User;
    use super::*;

    fn user(groups: &[&str]) -> Caller {
        let groups = groups.iter().map(|&group| group.into()).collect();
        Caller::User(User { username: "ann".into(), email: "ann@x".into(), groups, ..User::default() })
    }

    fn rules() -> Rules {
        let groups = |name: &str| vec![name.to_owned()];
        Rules::new(Roles {
            admin_groups: groups("admin"),
            delete_groups: groups("deleters"),
            create_dataset_groups: groups("#all"),
            create_dataset_with_pid_groups: groups("pid"),
            create_dataset_privileged_groups: groups("ingestor"),
            update_dataset_lifecycle_groups: groups("archive"),
        })
    }

    fn owned(owner_group: &str) -> Owned {
        Owned { owner_group: owner_group.into(), access_groups: vec!["readers".into()], ..Owned::default() }
    }

    #[test]
    fn everyone_reads_published_data_and_groups_read_theirs() {
        let rules = rules();
        let published = Owned { is_published: true, ..owned("a") };
        let shared = Owned { shared_with: vec!["ann@x".into()], ..owned("a") };
        for (caller, data, may) in [
            (Caller::Anonymous, &published, true),
            (Caller::Anonymous, &owned("a"), false),
            (Caller::Anonymous, &owned(""), false),
            (user(&["a"]), &owned("a"), true),
            (user(&["readers"]), &owned("a"), true),
            (user(&["b"]), &owned("a"), false),
            (user(&["b"]), &shared, true),
            (user(&["admin"]), &owned("a"), true),
            (user(&[""]), &owned(""), false),
        ] {
            assert_eq!(rules.read(&caller, data).is_ok(), may, "{caller:?} {data:?}");
        }
    }

    #[test]
    fn the_filter_of_reads_has_only_the_groups_of_the_caller() {
        let rules = rules();
        assert_eq!(rules.read_filter(&Caller::Anonymous), doc! {"isPublished": true});
        assert_eq!(rules.read_filter(&user(&["admin"])), doc! {});
        let expected = doc! {"$or": [
            {"isPublished": true},
            {"ownerGroup": {"$in": ["a", "b"]}},
            {"accessGroups": {"$in": ["a", "b"]}},
            {"sharedWith": "ann@x"},
        ]};
        assert_eq!(rules.read_filter(&user(&["a", "b"])), expected);
        assert_eq!(rules.read_groups(&Caller::Anonymous), Some(&[][..]));
        assert_eq!(
            (rules.read_groups(&user(&["a"])), rules.read_groups(&user(&["admin"]))),
            (Some(&["a".into()][..]), None)
        );
        let nobody = Caller::User(User::default());
        assert_eq!(rules.read_filter(&nobody), doc! {"$or": [{"isPublished": true}]});
    }

    #[test]
    fn a_creator_needs_a_role_for_foreign_groups_and_own_pids() {
        let check = |caller: Caller, group: &str, pid: Option<&str>, expected: Result<(), Refusal>| {
            assert_eq!(rules().create(&caller, group, pid), expected, "{caller:?} {group} {pid:?}");
        };
        check(Caller::Anonymous, "a", None, Err(Refusal::Forbidden));
        check(user(&["a"]), "a", None, Ok(()));
        check(user(&["a"]), "b", None, Err(Refusal::Foreign));
        check(user(&["a"]), "a", Some("p"), Err(Refusal::Foreign));
        check(user(&["a", "pid"]), "a", Some("p"), Ok(()));
        check(user(&["pid"]), "a", Some("p"), Err(Refusal::Foreign));
        check(user(&["ingestor"]), "b", Some("p"), Ok(()));
        check(user(&["admin"]), "b", Some("p"), Ok(()));
        let closed = Rules::default();
        assert_eq!(closed.create(&user(&["a"]), "a", None), Err(Refusal::Forbidden));
    }

    #[test]
    fn a_change_needs_ownership_or_a_role() {
        use Change::{Delete, DeleteBlock, Lifecycle, Update};
        let check = |caller: Caller, may: &[Change]| {
            for change in [Update, Lifecycle, Delete, DeleteBlock] {
                let result = rules().change(&caller, &owned("a"), change);
                assert_eq!(result.is_ok(), may.contains(&change), "{caller:?} {change:?}");
            }
        };
        check(Caller::Anonymous, &[]);
        check(user(&["readers"]), &[]);
        check(user(&["archive"]), &[]);
        check(user(&["readers", "archive"]), &[Lifecycle]);
        check(user(&["a"]), &[Update, Lifecycle]);
        check(user(&["admin"]), &[Update, Lifecycle, Delete]);
        check(user(&["deleters"]), &[Delete, DeleteBlock]);
    }

    #[test]
    fn a_stored_document_names_its_owners() {
        let document = doc! {"ownerGroup": "a", "accessGroups": ["b", 5], "isPublished": "yes"};
        let owned = Owned { owner_group: "a".into(), access_groups: vec!["b".into()], ..Owned::default() };
        assert_eq!(Owned::of(&document), owned);
        assert_eq!(Owned::of(&doc! {}), Owned::default());
    }
}
