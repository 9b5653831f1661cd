//! Rereads documents whose copies differ before the differences count: a chunk may migrate between two scans.

use plimsoll_deployment::{catch_up_to, progress};
use plimsoll_ledger::Audit;
use plimsoll_ledger::audit::Differences;
use plimsoll_measure::count::exact;
use plimsoll_wire::{Connection, FindReply, FindRequest, FindSpec};

use super::{Error, Reader};
use crate::operation_builder::identity_of;
use crate::statement;

/// The most documents of one comparison that are read again.
pub(super) const NUMBERS_MAX: usize = 10_000;
/// The number of reads of a document whose copies differ each time. A migration takes longer than all of
/// these reads, so one migration explains only one differing read.
pub(super) const ROUNDS: usize = 3;

/// Confirmed differences, and the number of documents that were not read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Confirmed<T> {
    /// The confirmed differences.
    pub differences: T,
    /// The documents beyond [`NUMBERS_MAX`].
    pub unread: u64,
}

impl<T> Confirmed<T> {
    /// A sentence on the documents that were not read again.
    pub fn unread(&self, place: &str) -> Option<String> {
        (self.unread > 0).then(|| {
            format!(
                "{} further documents on {place} seemed to differ and were not read again: audit again while the balancer is off.",
                exact(self.unread)
            )
        })
    }
}

/// The documents to read again, and the number of the rest.
pub(super) fn bounded(numbers: impl Iterator<Item = u64>) -> (Vec<u64>, u64) {
    let mut numbers = numbers;
    let first = numbers.by_ref().take(NUMBERS_MAX).collect();
    (first, numbers.count() as u64)
}

/// The differences between a primary and a member that remain when their documents are read again. `scans` are those of both.
pub(super) async fn of_member<'a>(
    primary: &mut Connection,
    member: &mut Connection,
    (seen, copy): (&Audit<'a>, &Audit<'a>),
    reader: &Reader<'a>,
) -> Result<Confirmed<Differences>, Error> {
    let (mut numbers, unread) = bounded(seen.differing(copy));
    let mut differences = Differences::default();
    for _ in 0..ROUNDS {
        if numbers.is_empty() {
            break;
        }
        let (mut here, mut there) = (seen.afresh(), seen.afresh());
        look_up(primary, &reader.spec(primary), &numbers, &mut here, reader).await?;
        let target = progress(primary).await?.applied;
        catch_up_to(member, target, reader.scope.lag_max).await?;
        look_up(member, &reader.member_spec(member), &numbers, &mut there, reader).await?;
        differences = here.differences(&there);
        numbers = here.differing(&there).collect();
    }
    Ok(Confirmed { differences, unread })
}

/// Reads documents by their numbers, one find for each.
pub(super) async fn look_up<'a>(
    connection: &mut Connection,
    spec: &FindSpec,
    numbers: &[u64],
    audit: &mut Audit<'a>,
    reader: &Reader<'a>,
) -> Result<(), plimsoll_wire::Error> {
    let spec = FindSpec { limit: Some(1), single_batch: true, ..spec.clone() };
    let mut request = FindRequest::new(&spec, &connection.limits())?;
    let (mut reply, mut reader) = (FindReply::new(), reader.afresh());
    for number in numbers {
        let identity = identity_of(reader.run, 0, *number);
        // A filter by receipt is short.
        request.filter(|out| statement::by_receipt(out, reader.scope.id, &identity)).unwrap_or_default();
        connection.find(&mut request, &mut reply).await?;
        reply.documents().for_each(|document| audit.see(reader.judge(document)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_beyond_the_limit_stay_open() {
        for (all, unread) in [(0, 0), (NUMBERS_MAX as u64, 0), (NUMBERS_MAX as u64 + 7, 7)] {
            let (first, rest) = bounded(0..all);
            assert_eq!((first.len() as u64, rest), (all - unread, unread));
        }
        let confirmed = |unread| Confirmed { differences: (), unread };
        assert_eq!(confirmed(0).unread("the member a:1"), None);
        let sentence = confirmed(1234).unread("the member a:1").unwrap();
        assert!(
            sentence.starts_with("1,234 further documents on the member a:1 seemed to differ"),
            "{sentence}"
        );
    }
}
