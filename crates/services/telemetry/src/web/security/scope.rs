//! What a caller may do.

/// One thing that a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Send readings.
    TelemetryWrite,
    /// Ask for readings and statistics.
    TelemetryRead,
    /// Post, follow and unfollow.
    ActivityWrite,
    /// Read feeds.
    ActivityRead,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::TelemetryWrite, Self::TelemetryRead, Self::ActivityWrite, Self::ActivityRead];

    /// The name in settings and tokens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TelemetryWrite => "telemetry:write",
            Self::TelemetryRead => "telemetry:read",
            Self::ActivityWrite => "activity:write",
            Self::ActivityRead => "activity:read",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// Everything that a caller may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// The scopes of these names.
    ///
    /// # Errors
    /// The first name that is none.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, &'a str> {
        names.into_iter().try_fold(Self::default(), |scopes, name| {
            Scope::of(name).map(|scope| scopes.with(scope)).ok_or(name)
        })
    }

    /// The scopes of those of these names that are ours; a token may hold those of other services.
    pub fn known<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        names.into_iter().filter_map(Scope::of).fold(Self::default(), Self::with)
    }

    /// The names of all that there are, for messages.
    pub fn names() -> String {
        Scope::ALL.map(Scope::name).join(", ")
    }

    /// Whether `scope` is among them.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    const fn with(self, scope: Scope) -> Self {
        Self(self.0 | 1 << scope as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_had_only_by_its_name() {
        for scope in Scope::ALL {
            let scopes = Scopes::named([scope.name()]).unwrap();
            assert!(Scope::ALL.into_iter().all(|other| scopes.has(other) == (other == scope)));
        }
        assert_eq!(Scopes::named(["telemetry:read", "telemetry"]), Err("telemetry"));
        assert_eq!(Scopes::known(["openid", "activity:read"]), Scopes::named(["activity:read"]).unwrap());
        assert!(Scope::ALL.into_iter().all(|scope| !Scopes::default().has(scope)));
    }
}
