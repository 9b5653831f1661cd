//! Checks long histories, with and without an anomaly.

use plimsoll_consistency::simulation::{SERIALIZABLE, Settings, Simulation};
use plimsoll_consistency::{Kind, Order, check};

#[test]
fn one_fault_among_many_transactions_is_found() {
    let settings = Settings { transactions: 20_000, processes: 16, lists: 16, unknown: 2, ..SERIALIZABLE };
    let history = Simulation::new(settings, 1).run(|store| {
        let ((x, y), start) = (store.two_lists(), store.tick());
        let (read_x, read_y) = (store.read(x), store.read(y));
        let (append_y, append_x) = (store.append(y), store.append(x));
        store.committed(101, start, vec![read_x, append_y]);
        store.committed(102, start, vec![read_y, append_x]);
    });
    let report = check(&history).unwrap();
    let counts: Vec<_> = report.counts.into_iter().collect();
    assert_eq!(counts, [(Kind::WriteSkew(Order::Any), 1)]);
}
