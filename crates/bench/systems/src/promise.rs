//! Decides the guarantee that a server promises for appends to lists, by the concerns of the operations.

use anyhow::{bail, ensure};
use plimsoll_consistency::{Claim, Isolation, Order};
use plimsoll_mongo::setup::{Command, Copies, Setup};
use plimsoll_wire::{W, WriteConcern};

use crate::audit::shown;

/// Why the order of real time is not promised on a replica set.
const REPLACED_PRIMARY: &str = "a replaced primary may still answer a read at `majority`, so stale reads and anomalies in real time break \
     no promise: with `read_concern: linearizable` they do";

/// A guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    pub claim: Claim,
    /// The guarantee in words.
    pub words: &'static str,
    /// Why no stronger guarantee is checked; `None` for the strongest.
    pub limit: Option<&'static str>,
}

impl Promise {
    /// The guarantee of the operations that append to lists.
    ///
    /// # Errors
    /// When the concerns of an operation are so weak that MongoDB promises nothing, or that its promise is unknown.
    pub fn of(setup: &Setup, copies: Copies) -> anyhow::Result<Self> {
        let each = setup.commands.iter().zip(&setup.concerns).zip(&setup.names);
        let lists = each.filter(|((command, _), _)| matches!(command, Command::ListAppend { .. }));
        let mut is_linearizable = true;
        for ((_, concerns), name) in lists {
            let (write, read) = (concerns.write.as_ref(), concerns.read.as_deref());
            match durability(write, copies) {
                Durability::Durable => {}
                Durability::Unknown => bail!(
                    "{name}: the write concern ({}) names no majority, so Plimsoll cannot tell whether a failover keeps the appends \
                     that it acknowledges: write `write_concern: {{w: majority, j: true}}`",
                    shown(write)
                ),
                Durability::Lossy => bail!(
                    "{name}: a failover or a crash may lose appends that the write concern ({}) acknowledges, so the server promises \
                     nothing that could be checked: write `write_concern: {{w: majority, j: true}}`",
                    shown(write)
                ),
            }
            ensure!(
                copies == Copies::One || matches!(read, Some("majority" | "snapshot" | "linearizable")),
                "{name}: a failover may take back appends that the read concern ({}) shows, so the server promises nothing that \
                 could be checked: write `read_concern: majority`, or `linearizable`",
                read.unwrap_or("local, the server's default")
            );
            is_linearizable &= copies == Copies::One || read == Some("linearizable");
        }
        Ok(Self::with(setup.appends_in_transactions(), is_linearizable))
    }

    const fn with(has_transactions: bool, is_linearizable: bool) -> Self {
        let (isolation, words) = match (has_transactions, is_linearizable) {
            (true, true) => (Isolation::Snapshot, "snapshot isolation in real time"),
            (true, false) => (Isolation::Snapshot, "snapshot isolation"),
            (false, true) => (Isolation::Serializable, "linearizability"),
            (false, false) => (Isolation::Serializable, "serializability"),
        };
        let (order, limit) =
            if is_linearizable { (Order::RealTime, None) } else { (Order::Any, Some(REPLACED_PRIMARY)) };
        Self { claim: Claim { isolation, order }, words, limit }
    }
}

/// Whether acknowledged writes survive a crash, and a failover of a replica set.
enum Durability {
    Durable,
    /// Depends on whether the named members are a majority.
    Unknown,
    Lossy,
}

fn durability(write: Option<&WriteConcern>, copies: Copies) -> Durability {
    let Some(write) = write else { return Durability::Lossy };
    match (&write.w, write.j) {
        (W::Majority, None | Some(true)) => Durability::Durable,
        (W::Number(1..) | W::Tag(_), Some(true)) if copies == Copies::One => Durability::Durable,
        (W::Number(2..) | W::Tag(_), Some(true)) => Durability::Unknown,
        _ => Durability::Lossy,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_deployment::concern::Concerns;
    use plimsoll_ledger::Run;
    use plimsoll_mongo::setup::Context;

    use super::*;

    /// The promise of a plan of lists with these concerns, as JSON.
    fn promise(write: &str, read: &str, steps: u32, copies: Copies) -> anyhow::Result<Promise> {
        let section = format!(r#"{{"collection": "d.c", "write_concern": {write}, "read_concern": {read}}}"#);
        let section = serde_json::from_str(&section).unwrap();
        let operation = format!(r#"{{"list_append": {{"steps": {steps}, "lists": 8}}}}"#);
        let operations = [("lists".to_owned(), serde_json::from_str(&operation).unwrap())];
        let context = Context { seed: 1, run: Run { time_s: 1, tag: [1, 2, 3] }, base: Path::new(".") };
        let mut setup = Setup::build(&section, &operations, context).unwrap();
        setup.inherit(&Concerns::default(), copies);
        Promise::of(&setup, copies)
    }

    const MAJORITY: &str = r#"{"w": "majority"}"#;

    #[test]
    fn concerns_that_promise_nothing_are_refused_by_name() {
        let check = |write: &str, read: &str, copies, named: &str| {
            let refusal = promise(write, read, 4, copies).unwrap_err().to_string();
            assert!(refusal.starts_with("lists: ") && refusal.contains(named), "{refusal}");
        };
        for copies in [Copies::One, Copies::Several] {
            check(r#"{"w": 1}"#, r#""majority""#, copies, r#"write concern ({"w": 1})"#);
            check(r#"{"w": "majority", "j": false}"#, r#""majority""#, copies, r#""j": false"#);
            check("{}", r#""majority""#, copies, "the server's default");
        }
        check(r#"{"w": 1, "j": true}"#, r#""majority""#, Copies::Several, r#""j": true"#);
        check(r#"{"w": 2}"#, r#""majority""#, Copies::Several, r#""w": 2"#);
        check(MAJORITY, r#""local""#, Copies::Several, "read concern (local)");
        check(MAJORITY, r#""available""#, Copies::Several, "read concern (available)");
        check(MAJORITY, "null", Copies::Several, "read concern (local, the server's default)");
    }

    #[test]
    fn a_number_of_members_is_no_majority_and_no_loss() {
        for write in [r#"{"w": 2, "j": true}"#, r#"{"w": 3, "j": true}"#, r#"{"w": "rack", "j": true}"#] {
            let refusal = promise(write, r#""majority""#, 4, Copies::Several).unwrap_err().to_string();
            assert!(
                refusal.starts_with("lists: ") && refusal.contains("cannot tell whether a failover"),
                "{refusal}"
            );
            assert!(
                refusal.contains(&write[1..write.len() - 1]) && !refusal.contains("may lose"),
                "{refusal}"
            );
        }
        for write in [r#"{"w": 1, "j": true}"#, r#"{"w": 2}"#, r#"{"w": 2, "j": false}"#] {
            let refusal = promise(write, r#""majority""#, 4, Copies::Several).unwrap_err().to_string();
            assert!(refusal.contains("a failover or a crash may lose appends"), "{refusal}");
        }
    }

    #[test]
    fn the_guarantee_follows_from_the_concerns() {
        let check = |write: &str, read: &str, copies, words: [&str; 2], claim_order: Order| {
            for (steps, isolation, words) in
                [(4, Isolation::Snapshot, words[0]), (1, Isolation::Serializable, words[1])]
            {
                let promise = promise(write, read, steps, copies).unwrap();
                let claim = Claim { isolation, order: claim_order };
                assert_eq!((promise.claim, promise.words), (claim, words), "{write} {read} {copies:?}");
                assert_eq!(promise.limit.is_some(), claim_order == Order::Any);
            }
        };
        let strict = ["snapshot isolation in real time", "linearizability"];
        check(MAJORITY, r#""linearizable""#, Copies::Several, strict, Order::RealTime);
        check(MAJORITY, "null", Copies::One, strict, Order::RealTime);
        check(r#"{"w": 1, "j": true}"#, r#""local""#, Copies::One, strict, Order::RealTime);
        let loose = ["snapshot isolation", "serializability"];
        check(MAJORITY, r#""majority""#, Copies::Several, loose, Order::Any);
        check(MAJORITY, r#""snapshot""#, Copies::Several, loose, Order::Any);
    }
}
