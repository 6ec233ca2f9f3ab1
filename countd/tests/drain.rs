//! SIGTERM: `/readyz` fails first, and the process stops later.

use crate::support::{Countd, on_note, wait_until_drained};
use countint_tests::{Server, wait_until};

/// Longer than a test takes.
const LONG: &str = "[http]\ndrain_ms = 600000\n";

#[test]
fn everything_but_readyz_works_until_the_drain_ends() {
    let server = Server::start();
    let mut countd = Countd::start(&server, LONG);
    let api = countd.api();
    assert_eq!(api.get("/readyz").0, 200);
    countd.terminate();
    wait_until("it is not ready", || api.get("/readyz").0 == 503);
    let (_, problem) = api.get("/readyz");
    assert_eq!(problem["code"], "stopping", "{problem}");
    assert_eq!(api.get("/healthz").0, 200);
    // On a new connection, too; and events are counted.
    let other = countd.api();
    other.act("read", on_note(1, 42));
    wait_until_drained(&server, 1024);
    assert_eq!(other.counts(1)["read"], 1);
    assert!(!countd.log().contains("\"stopping\""));
    countd.terminate();
    countd.wait_for_end();
}

#[test]
fn the_drain_ends_by_itself_and_ctrl_c_skips_it() {
    let server = Server::start();
    let mut countd = Countd::start(&server, "[http]\ndrain_ms = 200\n");
    countd.stop();
    assert!(countd.log().contains("draining"), "{}", countd.log());
    let mut countd = Countd::start(&server, LONG);
    countd.signal("INT");
    countd.wait_for_end();
    assert!(!countd.log().contains("draining"), "{}", countd.log());
}
