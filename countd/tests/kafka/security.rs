//! TLS, SASL and ACLs.

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, start};
use crate::support::kafka::{Brokers, PASSWORD, Security, TOPIC, USER, config};
use crate::support::stores::module;
use crate::support::{on_note, run};
use countint_tests::wait_until;

fn properties(brokers: &Brokers, password: &str) -> String {
    format!(
        "timeout_ms = 3000\nproperties = {{ \"security.protocol\" = \"SASL_SSL\", \"sasl.mechanism\" = \"SCRAM-SHA-512\", \
         \"sasl.username\" = \"{USER}\", \"sasl.password\" = \"{password}\", \"ssl.ca.location\" = \"{}\" }}",
        brokers.authority().display()
    )
}

/// The documented ACLs.
fn permit(brokers: &Brokers) {
    for operation in ["Read", "Write", "Describe", "DescribeConfigs"] {
        brokers.acl("--add", &format!("--operation {operation} --topic {TOPIC}"));
    }
    brokers.acl("--add", "--operation Read --group countd");
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn a_user_with_the_documented_acls_produces_and_consumes_over_tls() {
    let brokers = Brokers::with(1, TOPIC_PARTITIONS, Security::Sasl);
    permit(&brokers);
    let more = properties(&brokers, PASSWORD);
    let setup = Setup::on(brokers, module(), &more);
    setup.produce(1);
    for note in 0..40 {
        setup.api().act("read", on_note(note, 1));
        setup.api().act("like", on_note(note, 1));
    }
    setup.assert_exact();
    assert_eq!(setup.api().counts(7)["read"], 11);
    crate::support::kafka::wait_until_published(&setup.store, PARTITIONS);
    let ends: Vec<i64> = setup
        .topic
        .watermarks()
        .iter()
        .map(|marks| marks.1)
        .collect();
    wait_until("offsets are published", || {
        setup.topic.committed("countd") == ends
    });
    let output = run(&setup.store.server, &setup.config, &["check"]);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains(PASSWORD), "{text}");
    let log = setup.countd.log();
    assert!(!log.contains(PASSWORD), "{log}");
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn a_wrong_password_and_missing_acls_are_reported() {
    let brokers = Brokers::with(1, TOPIC_PARTITIONS, Security::Sasl);
    let store = module();
    let check = |password: &str| {
        let config = config(
            &brokers.addresses(),
            PARTITIONS,
            &properties(&brokers, password),
        );
        crate::support::set_schema(&store.server, &config);
        let output = run(&store.server, &config, &["check"]);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains(password), "{text}");
        (output.status.success(), text)
    };
    let (is_right, text) = check("another-password");
    assert!(!is_right && text.to_lowercase().contains("auth"), "{text}");
    // Without an ACL the topic does not exist for the user.
    let (is_right, text) = check(PASSWORD);
    assert!(!is_right && text.contains(TOPIC), "{text}");
    permit(&brokers);
    let (is_right, text) = check(PASSWORD);
    assert!(is_right && !text.contains("cannot be published"), "{text}");
    // A user who may read the offsets of the group, and not commit them.
    brokers.acl("--add", "--operation Describe --group countd");
    brokers.acl("--remove", "--operation Read --group countd");
    let (is_right, text) = check(PASSWORD);
    assert!(is_right && text.contains("cannot be published"), "{text}");
    // A user who must not write: likes go on, and reads are refused.
    let config = config(
        &brokers.addresses(),
        PARTITIONS,
        &properties(&brokers, PASSWORD),
    );
    let countd = start(&store, &config, "all");
    countd.api().act("read", on_note(1, 1));
    brokers.acl("--remove", &format!("--operation Write --topic {TOPIC}"));
    wait_until("reads are refused", || {
        countd.api().post("/action/read", &on_note(1, 1)).0 == 503
    });
    assert_eq!(countd.api().act("like", on_note(1, 1))["count"], 1);
    let (is_right, text) = check(PASSWORD);
    assert!(!is_right, "{text}");
}
