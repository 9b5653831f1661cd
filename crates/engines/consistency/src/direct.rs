//! Finds anomalies that a single list or transaction shows, without a graph.

use std::collections::{HashMap, HashSet};

use crate::history::{Element, ListId, Outcome, Step};
use crate::lists::{List, Lists, NEVER_NS, Read, shown};
use crate::report::{Kind, Report};

/// Reports every anomaly that needs no graph.
pub(crate) fn find(lists: &Lists<'_>, report: &mut Report) {
    inconsistent(lists, report);
    for list in &lists.all {
        elements(lists, list, report);
        dirty_updates(lists, list, report);
        for read in &list.reads {
            incompatible(list, *read, report);
            aborted(lists, list, *read, report);
            intermediate(lists, list, *read, report);
        }
        lost_updates(lists, list, report);
        stale(lists, list, report);
    }
    lost_appends(lists, report);
}

fn inconsistent(lists: &Lists<'_>, report: &mut Report) {
    for &(number, index) in &lists.inconsistent {
        report.add(Kind::Internal, || {
            let step = &lists.transaction(number).steps[index];
            let state = if let Step::Read { elements, .. } = step { shown(elements) } else { String::new() };
            let list = step.list();
            (vec![number], format!("T{number} read {state} of list {list}, contrary to its earlier steps"))
        });
    }
}

/// Reports duplicates and phantoms once for each list.
fn elements(lists: &Lists<'_>, list: &List<'_>, report: &mut Report) {
    // The positions of a sound list prove that its elements differ.
    if list.is_sound {
        return;
    }
    let (mut duplicates, mut phantoms) = (HashSet::new(), HashSet::new());
    for read in &list.reads {
        let mut seen = HashSet::with_capacity(read.elements.len());
        for element in read.elements {
            if !seen.insert(element) && duplicates.insert(element) {
                report_element(Kind::DuplicateElement, list, *read, *element, "twice", report);
            }
            if lists.append(list.id, *element).is_none() && phantoms.insert(element) {
                report_element(Kind::PhantomElement, list, *read, *element, "that nothing appended", report);
            }
        }
    }
}

fn report_element(
    kind: Kind,
    list: &List<'_>,
    read: Read<'_>,
    element: Element,
    how: &str,
    report: &mut Report,
) {
    let (number, id) = (read.transaction, list.id);
    report.add(kind, || {
        (vec![number], format!("T{number} read {} of list {id}, with {element} {how}", shown(read.elements)))
    });
}

fn incompatible(list: &List<'_>, read: Read<'_>, report: &mut Report) {
    if list.is_sound || list.order.starts_with(read.elements) {
        return;
    }
    let longest = list.reads.iter().find(|other| other.elements.len() == list.order.len());
    let Some(longest) = longest else { return };
    let (one, other, id) = (read.transaction, longest.transaction, list.id);
    report.add(Kind::IncompatibleOrder, || {
        let (short, long) = (shown(read.elements), shown(longest.elements));
        (
            vec![one, other],
            format!("T{one} read {short} of list {id}, and T{other} read {long}: neither is a beginning of the other"),
        )
    });
}

fn dirty_updates(lists: &Lists<'_>, list: &List<'_>, report: &mut Report) {
    if list.is_sound {
        return;
    }
    let appends = list.order.iter().filter_map(|element| lists.append(list.id, *element));
    let mut aborted = None;
    for writer in appends.map(|append| append.transaction) {
        match (lists.transaction(writer).outcome, aborted) {
            (Outcome::Aborted, _) => aborted = Some(writer),
            (Outcome::Committed, Some(from)) => {
                let words =
                    format!("T{from} aborted, and T{writer} appended after its element of list {}", list.id);
                report.add(Kind::DirtyUpdate, || (vec![from, writer], words));
                aborted = None;
            }
            _ => {}
        }
    }
}

fn aborted(lists: &Lists<'_>, list: &List<'_>, read: Read<'_>, report: &mut Report) {
    if list.is_sound {
        return;
    }
    let found = read.elements.iter().find_map(|element| {
        let writer = lists.append(list.id, *element)?.transaction;
        lists.is_aborted(writer).then_some((*element, writer))
    });
    let Some((element, writer)) = found else { return };
    let (number, id) = (read.transaction, list.id);
    report.add(Kind::AbortedRead, || {
        (vec![writer, number], format!("T{number} read {element} of list {id}, but T{writer} aborted"))
    });
}

fn intermediate(lists: &Lists<'_>, list: &List<'_>, read: Read<'_>, report: &mut Report) {
    let Some(last) = read.elements.last() else { return };
    let Some(append) = lists.append(list.id, *last) else { return };
    let (writer, number, id) = (append.transaction, read.transaction, list.id);
    if append.is_last || writer == number || lists.is_aborted(writer) {
        return;
    }
    report.add(Kind::IntermediateRead, || {
        let state = shown(read.elements);
        (
            vec![writer, number],
            format!(
                "T{number} read {state} of list {id}, but {last} is not the last element that T{writer} appended"
            ),
        )
    });
}

/// Transactions that read the same state and appended to it.
fn lost_updates(lists: &Lists<'_>, list: &List<'_>, report: &mut Report) {
    let appenders: HashSet<u32> = list.appended.iter().map(|(writer, _)| *writer).collect();
    let mut first_of: HashMap<&[Element], u32> = HashMap::new();
    for read in list.reads.iter().filter(|read| appenders.contains(&read.transaction)) {
        let number = read.transaction;
        let first = *first_of.entry(read.elements).or_insert(number);
        if first == number {
            continue;
        }
        report.add(Kind::LostUpdate, || {
            let (state, id) = (shown(read.elements), list.id);
            (
                vec![first, number],
                format!("T{first} and T{number} both read {state} of list {id} and appended"),
            )
        });
    }
    debug_assert!(list.reads.iter().all(|read| lists.is_present(read.transaction)), "reads are committed");
}

fn stale(lists: &Lists<'_>, list: &List<'_>, report: &mut Report) {
    if !list.is_sound {
        return;
    }
    let first = first_completed(lists, list);
    for read in &list.reads {
        let Some(&(completed_ns, writer)) = first.get(read.elements.len()) else { continue };
        let number = read.transaction;
        if completed_ns >= lists.transaction(number).invoked_ns {
            continue;
        }
        report.add(Kind::StaleRead, || {
            let of_writer = list.writers.iter().rposition(|other| *other == writer);
            let element = of_writer.map_or(0, |position| list.order[position]);
            let (state, id) = (shown(read.elements), list.id);
            (
                vec![writer, number],
                format!(
                    "T{number} read {state} of list {id} after T{writer} had appended {element} to it and was \
                     acknowledged"
                ),
            )
        });
    }
}

/// For each position: the earliest completion among the writers at this and later positions, and that writer.
fn first_completed(lists: &Lists<'_>, list: &List<'_>) -> Vec<(u64, u32)> {
    let completed = |writer: &u32| {
        let transaction = lists.transaction(*writer);
        let is_committed = transaction.outcome == Outcome::Committed;
        (if is_committed { transaction.completed_ns } else { NEVER_NS }, *writer)
    };
    let mut all: Vec<_> = list.writers.iter().map(completed).collect();
    for position in (1..all.len()).rev() {
        all[position - 1] = all[position - 1].min(all[position]);
    }
    all
}

/// Appends of committed transactions that the last read of their list lacks, although it started later.
fn lost_appends(lists: &Lists<'_>, report: &mut Report) {
    let mut half: HashSet<u32> = HashSet::new();
    for list in &lists.all {
        let Some(read) = list.last_read(lists.history) else { continue };
        let started_ns = lists.transaction(read.transaction).invoked_ns;
        let shown_elements: HashSet<Element> = match list.is_sound {
            true => HashSet::new(),
            false => read.elements.iter().copied().collect(),
        };
        let is_lost = |&(writer, element): &(u32, Element)| {
            let position = lists.append(list.id, element).and_then(|append| append.position);
            let is_missing =
                if list.is_sound { position.is_none() } else { !shown_elements.contains(&element) };
            is_missing && lists.known_ns[writer as usize] < started_ns
        };
        for (writer, element) in list.appended.iter().copied().filter(is_lost) {
            let visible = visible_part(lists, writer, list.id);
            if visible.is_some() && !half.insert(writer) {
                continue;
            }
            let (number, id, state) = (read.transaction, list.id, shown(read.elements));
            let lost =
                format!("T{writer} appended {element} to list {id}, and T{number} later read {state} of it");
            match visible {
                Some(other) => report.add(Kind::HalfTransaction, || {
                    (vec![writer, number], format!("{lost}, but list {other} has the element of T{writer}"))
                }),
                None => report.add(Kind::LostAppend, || (vec![writer, number], lost)),
            }
        }
    }
}

/// Another list that shows an append of the transaction.
fn visible_part(lists: &Lists<'_>, writer: u32, lost: ListId) -> Option<ListId> {
    lists.transaction(writer).steps.iter().find_map(|step| match step {
        Step::Append { list, element } if *list != lost => {
            lists.append(*list, *element)?.position.map(|_| *list)
        }
        _ => None,
    })
}
