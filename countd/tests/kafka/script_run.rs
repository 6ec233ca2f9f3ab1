//! `scripts/run --kafka`: everything on one machine, and again on the same data.

use crate::support::{Api, metric, on_note};
use crate::tour::script_run::ScriptRun;
use countint_tests::wait_until;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn the_script_counts_a_topic_and_keeps_it() {
    let jars = std::env::var_os("COUNTINT_KAFKA").expect("set by scripts/test-kafka");
    let fetched = PathBuf::from(jars);
    let fetched = fetched.parent().expect("the directory of the jars");
    let mut script = ScriptRun::with(&["--kafka"], |target| {
        symlink(fetched, target.join("kafka")).expect("the test's directory is writable");
    });
    let api = Api::new(script.http_port());
    for round in 1..=2 {
        api.ok(api.post("/action/read", &on_note(5, 42)));
        wait_until("the read is counted", || api.counts(5)["read"] == round);
        assert!(metric(&api, "countd_kafka_produced_total") > 0);
        assert!(script.stdout().contains("Kafka is on 127.0.0.1:"));
        script.restart();
    }
    assert_eq!(api.counts(5)["read"], 2);
}
