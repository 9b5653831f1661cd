//! Names the permissions of a service, and stores those of a caller.

use std::sync::Arc;

/// A permission, by its name in settings and tokens. Each service lists its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope(pub &'static str);

impl Scope {
    /// The name in settings and tokens.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// The permissions of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes(Arc<[Scope]>);

impl Scopes {
    /// The scopes of `service` with these names.
    ///
    /// # Errors
    /// The first unknown name.
    pub fn named<'a>(service: &[Scope], names: impl IntoIterator<Item = &'a str>) -> Result<Self, &'a str> {
        let scopes = names.into_iter().map(|name| find(service, name).ok_or(name));
        scopes.collect::<Result<_, _>>().map(Self)
    }

    /// Ignores unknown names: a token may hold scopes of other services.
    pub fn known<'a>(service: &[Scope], names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().filter_map(|name| find(service, name)).collect())
    }

    /// Whether `scope` is among them.
    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// Whether nothing is permitted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The names of these scopes, for messages.
pub fn names(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", ")
}

fn find(service: &[Scope], name: &str) -> Option<Scope> {
    service.iter().copied().find(|scope| scope.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_granted_only_by_its_name() {
        let all = [Scope("a:read"), Scope("a:write"), Scope("b:read")];
        for scope in all {
            let scopes = Scopes::named(&all, [scope.name()]).unwrap();
            assert!(all.into_iter().all(|other| scopes.has(other) == (other == scope)));
        }
        assert_eq!(Scopes::named(&all, ["a:read", "a"]), Err("a"));
        assert_eq!(Scopes::known(&all, ["openid", "b:read"]), Scopes::named(&all, ["b:read"]).unwrap());
        assert!(Scopes::known(&all, ["openid"]).is_empty());
    }
}
