//! Several processes of a sink: one writes.

use super::{Rows, Warehouse};
use crate::support::database::{Kind, for_each_database};
use crate::support::{Countd, metric, on_note};
use countint_tests::wait_until;

fn leads(sink: &Countd) -> bool {
    metric(&sink.api(), "countd_sink_leads") == 1
}

fn another_process_takes_over(kind: Kind) {
    let warehouse = Warehouse::start(kind, "timeout_ms = 5000");
    let api = warehouse.api();
    let mut expected = Rows::default();
    let like = |expected: &mut Rows, user: u64| {
        api.act("like", on_note(1, user));
        expected.like("1", [user]);
        warehouse.wait_for(expected);
    };
    let mut first = warehouse.sink();
    like(&mut expected, 1);
    let mut second = warehouse.sink();
    assert!(leads(&first) && !leads(&second));
    // At once, because the first one gives up.
    first.stop();
    wait_until("the second process leads", || leads(&second));
    like(&mut expected, 2);
    first.launch();
    assert!(!leads(&first));
    second.kill();
    wait_until("the first process leads", || leads(&first));
    like(&mut expected, 3);
    // A process that was paused cannot write any more.
    second.launch();
    first.suspend();
    wait_until("the second process leads", || leads(&second));
    like(&mut expected, 4);
    first.resume();
    wait_until("the first process has noticed", || !leads(&first));
    like(&mut expected, 5);
    assert!(leads(&second) && !leads(&first));
}

for_each_database! { another_process_takes_over }
