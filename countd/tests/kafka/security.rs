//! TLS, SASL, certificates of clients, and ACLs.

use super::brokers::begin;
use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, start};
use crate::support::certificates::{Authority, Files};
use crate::support::kafka::{
    Brokers, PASSWORD, Security, TOPIC, USER, config, wait_until_published,
};
use crate::support::stores::{TestStore, module};
use crate::support::{on_note, set_schema};
use countint_tests::env::TempDir;
use countint_tests::wait_until;

const SCRAM: &str = "SCRAM-SHA-512";

fn properties(brokers: &Brokers, mechanism: &str, password: &str) -> String {
    format!(
        "timeout_ms = 3000\nproperties = {{ \"security.protocol\" = \"SASL_SSL\", \"sasl.mechanism\" = \"{mechanism}\", \
         \"sasl.username\" = \"{USER}\", \"sasl.password\" = \"{password}\", \"ssl.ca.location\" = \"{}\" }}",
        brokers.authority().display()
    )
}

/// The properties of a client with a certificate, or without one.
fn properties_of_tls(brokers: &Brokers, certificate: Option<&Files>) -> String {
    let authority = brokers.authority();
    let authority = authority.display();
    let certificate = certificate.map(|Files { cert, key }| {
        let (cert, key) = (cert.display(), key.display());
        format!(", \"ssl.certificate.location\" = \"{cert}\", \"ssl.key.location\" = \"{key}\"")
    });
    format!(
        "timeout_ms = 3000\nproperties = {{ \"security.protocol\" = \"SSL\", \"ssl.ca.location\" = \"{authority}\"{} }}",
        certificate.unwrap_or_default()
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
    for mechanism in [SCRAM, "PLAIN"] {
        begin(&brokers, mechanism);
        assert_produces_and_consumes(&brokers, &properties(&brokers, mechanism, PASSWORD));
    }
    let store = module();
    let (is_right, text) = check(&brokers, &store, &properties(&brokers, "PLAIN", "another"));
    assert!(!is_right && text.to_lowercase().contains("auth"), "{text}");
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn a_client_with_a_certificate_produces_and_consumes() {
    let brokers = Brokers::with(1, TOPIC_PARTITIONS, Security::MutualTls);
    permit(&brokers);
    let certificate = brokers.issue(USER);
    let with_certificate = properties_of_tls(&brokers, Some(&certificate));
    assert_produces_and_consumes(&brokers, &with_certificate);
    let store = module();
    let check = |properties: &str| check(&brokers, &store, properties);
    assert!(check(&with_certificate).0);
    // Without a certificate, with one of another authority, and with one of a user without ACLs.
    let (is_right, text) = check(&properties_of_tls(&brokers, None));
    assert!(!is_right && text.contains(&brokers.addresses()), "{text}");
    let dir = TempDir::new();
    let unknown = Authority::new().issue(dir.path(), USER);
    let (is_right, text) = check(&properties_of_tls(&brokers, Some(&unknown)));
    assert!(!is_right && text.contains(&brokers.addresses()), "{text}");
    let other = brokers.issue("other");
    let (is_right, text) = check(&properties_of_tls(&brokers, Some(&other)));
    assert!(!is_right && text.contains(TOPIC), "{text}");
}

/// Reads through the API and by another client count, likes are copied, and offsets are published. Nothing shows the password.
fn assert_produces_and_consumes(brokers: &Brokers, properties: &str) {
    let setup = Setup::on(brokers, module(), properties);
    setup.produce(1);
    for note in 0..40 {
        setup.api().act("read", on_note(note, 1));
        setup.api().act("like", on_note(note, 1));
    }
    setup.assert_exact();
    assert_eq!(setup.api().counts(7)["read"], 11);
    wait_until_published(&setup.store, PARTITIONS);
    let ends: Vec<i64> = setup
        .topic
        .watermarks()
        .iter()
        .map(|marks| marks.1)
        .collect();
    wait_until("offsets are published", || {
        setup.topic.committed("countd") == ends
    });
    let (is_right, text) = super::check::check(&setup.store.server, &setup.config);
    assert!(is_right, "{text}");
    assert!(!text.contains(PASSWORD), "{text}");
    let log = setup.countd.log();
    assert!(!log.contains(PASSWORD), "{log}");
}

/// `countd check` with these properties.
fn check(brokers: &Brokers, store: &TestStore, properties: &str) -> (bool, String) {
    let config = config(&brokers.addresses(), PARTITIONS, properties);
    set_schema(&store.server, &config);
    super::check::check(&store.server, &config)
}

/// [`check`] as the user with this password, which it must not print.
fn check_as_user(brokers: &Brokers, store: &TestStore, password: &str) -> (bool, String) {
    let (is_right, text) = check(brokers, store, &properties(brokers, SCRAM, password));
    assert!(!text.contains(password), "{text}");
    (is_right, text)
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn a_wrong_password_and_missing_acls_are_reported() {
    let brokers = Brokers::with(1, TOPIC_PARTITIONS, Security::Sasl);
    let store = module();
    let check = |password| check_as_user(&brokers, &store, password);
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
    let properties = properties(&brokers, SCRAM, PASSWORD);
    let config = config(&brokers.addresses(), PARTITIONS, &properties);
    let countd = start(&store, &config, "all");
    countd.api().act("read", on_note(1, 1));
    brokers.acl("--remove", &format!("--operation Write --topic {TOPIC}"));
    wait_until("reads are refused", || {
        countd.api().post("/action/read", &on_note(1, 1)).0 == 503
    });
    assert_eq!(countd.api().act("like", on_note(1, 1))["count"], 1);
}

/// Each operation of the documented ACLs on the topic is taken away in turn.
#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn missing_operations_on_the_topic_are_named() {
    let brokers = Brokers::with(1, TOPIC_PARTITIONS, Security::Sasl);
    let store = module();
    permit(&brokers);
    for (operation, problem, is_usable) in [
        (
            "Read",
            "the user may not read the topic (operation Read)",
            false,
        ),
        (
            "Write",
            "the user may not append to the topic (operation Write)",
            false,
        ),
        (
            "DescribeConfigs",
            "the configuration of the topic cannot be read",
            true,
        ),
    ] {
        let (is_right, text) = check_as_user(&brokers, &store, PASSWORD);
        assert!(is_right && !text.contains(problem), "{text}");
        let acl = format!("--operation {operation} --topic {TOPIC}");
        brokers.acl("--remove", &acl);
        let (is_right, text) = check_as_user(&brokers, &store, PASSWORD);
        assert_eq!(is_right, is_usable, "{text}");
        assert!(text.contains(problem) && text.contains(operation), "{text}");
        brokers.acl("--add", &acl);
    }
    // Read and Write imply Describe. Without any of the three, brokers hide the topic.
    for operation in ["Read", "Write", "Describe"] {
        brokers.acl(
            "--remove",
            &format!("--operation {operation} --topic {TOPIC}"),
        );
    }
    let (is_right, text) = check_as_user(&brokers, &store, PASSWORD);
    assert!(!is_right, "{text}");
    assert!(
        text.contains(&format!("the topic {TOPIC} may not be used")),
        "{text}"
    );
}
