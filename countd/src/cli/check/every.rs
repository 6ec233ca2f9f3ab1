//! Every finding that `check` and `doctor` can print, made at every place of the code: each has a remedy, and its commands exist.

use super::damage::tests::state;
use super::report::Finding;
use super::{damage, databases, layout, replicas, schemas, servers, start, topic};
use crate::cli::args::Cli;
use clap::Parser;
use countd::database::DatabaseError;
use countd::domain::config::{Config, Storage};
use countd::domain::error::{ConnectError, SchemaError, StoreError};
use countd::domain::health::FailedPartition;
use countd::domain::ids::Name;
use countd::domain::keys::{Keys, PartitionHash, StoragePhase};
use countd::domain::schema_views::{MigrationState, Stage};
use countd::log::inspect::PartitionState;
use countd::log::kafka::{TopicError, TopicRisk};
use countd::monitor::Info;
use countd::redis::layout::Truncation;
use countd::redis::replica_links::{LinkProblem, PrimaryReplicas};
use countd::redis::script::CounterBackend;
use countd::relay::RelayError;
use countd::sink::{SinkError, TableLack};
use countd::storage::schema::Schema;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// The programs that commands of operators begin with.
const PROGRAMS: [&str; 10] = [
    "countd",
    "export",
    "kafka-acls.sh",
    "kafka-configs.sh",
    "kafka-reassign-partitions.sh",
    "kafka-topics.sh",
    "mysql",
    "psql",
    "redis-cli",
    "redis-cli -c",
];

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn text() -> String {
    "x".to_owned()
}

fn refused() -> redis::RedisError {
    io::Error::from(io::ErrorKind::ConnectionRefused).into()
}

fn of_start() -> Vec<Finding> {
    let facts = ConnectError::Facts {
        setting: "metrics.like.facts".to_owned(),
        configured: "rbm".to_owned(),
        found: "bitmap".to_owned(),
    };
    let partitions = ConnectError::Partitions {
        found: "512".to_owned(),
        configured: 1024,
    };
    let layout = ConnectError::UnknownLayout {
        field: text(),
        value: text(),
    };
    let columns = ConnectError::Columns {
        etype: name("note"),
        schema: name("v1"),
    };
    let errors = [
        ConnectError::Redis(refused()),
        ConnectError::NoModule(text()),
        facts,
        partitions,
        layout,
        ConnectError::UncountedCredit(name("like")),
        ConnectError::UserCounters(text()),
        ConnectError::Schema(text()),
        columns,
        ConnectError::MissingPermissions(text()),
        ConnectError::Archive,
        ConnectError::ArchiveRefused(text()),
        ConnectError::Restoring,
        ConnectError::Seeds(text()),
        ConnectError::Ack(text(), text()),
        ConnectError::Cluster,
    ];
    errors.iter().map(start::describe).collect()
}

fn of_servers() -> Vec<Finding> {
    let info = "maxmemory_policy:allkeys-lru\r\naof_enabled:0\r\n";
    let mut findings = servers::of_server("127.0.0.1:6379", &Info::parse(info));
    assert_eq!(findings.len(), 2);
    let links = [
        LinkProblem::Syncing("wait_bgsave".to_owned()),
        LinkProblem::Behind,
        LinkProblem::Unreachable(text()),
        LinkProblem::LinkDown,
        LinkProblem::Primary,
        LinkProblem::NotConnected,
    ];
    let problems = links.map(|problem| (("10.0.0.2".to_owned(), 6379), problem));
    for (node_id, is_primary) in [(None, true), (Some(text()), true), (None, false)] {
        let primary = PrimaryReplicas {
            primary: "10.0.0.1:6379".to_owned(),
            node_id,
            is_primary,
            online: 0,
            problems: problems.to_vec(),
        };
        let needs = replicas::Needs {
            ack: (1, "replicas:1".to_owned()),
            is_read: true,
        };
        findings.extend(replicas::of_primary(&primary, &needs));
    }
    findings
}

fn of_layout() -> Vec<Finding> {
    let (like, others) = (name("like"), BTreeSet::from([text()]));
    let state = |stage, percent| MigrationState {
        from: name("v1"),
        to: name("v2"),
        stage,
        percent,
        since: 1,
    };
    let optional = [
        layout::of_storage("note", StoragePhase::Table, Storage::Object),
        layout::of_storage("user", StoragePhase::Table, Storage::Object),
        layout::of_storage("note", StoragePhase::Object, Storage::Table),
        layout::of_storage("note", StoragePhase::Moving, Storage::Table),
        layout::of_schema(&state(Stage::Dual, 0)),
        layout::of_schema(&state(Stage::ReadNew, 50)),
        layout::of_schema(&state(Stage::ReadNew, 100)),
        layout::of_reverse(&like, true, false),
        layout::of_reverse(&like, false, true),
    ];
    let mut findings: Vec<Finding> = optional.map(|finding| finding.expect("a finding")).into();
    findings.extend([
        layout::of_backend(CounterBackend::StringsOrModule, true, false),
        layout::of_backend(CounterBackend::Strings, true, false),
        layout::of_backend(CounterBackend::Strings, false, true),
        layout::of_backend(CounterBackend::Strings, false, false),
        layout::of_external(&like),
    ]);
    findings.extend(layout::of_leftovers("note", &[text()]));
    findings.extend(layout::of_counting(&others, false));
    findings.extend(layout::of_counting(&BTreeSet::new(), true));
    findings
}

fn of_damage() -> Vec<Finding> {
    let keys = Keys::new(8, true, PartitionHash::Murmur2);
    let with_outbox = |problem: &str| PartitionState {
        outbox: Some(format!("{} {problem}", keys.outbox(7))),
        ..state(4, (0, 3))
    };
    let wrong_type = PartitionState {
        end: Err(format!("{} is not a stream", keys.log(7))),
        ..state(1, (0, 3))
    };
    let states = [
        // Disordered, restarted, and of another type.
        state(1, (5, 0)),
        state(9, (0, 3)),
        wrong_type,
        with_outbox("is not a stream"),
        with_outbox("ends with a foreign ID"),
    ];
    let partitions = states.iter().map(|state| {
        let failed = FailedPartition {
            partition: 7,
            reason: state.problems().join("; "),
        };
        (failed, damage::repair(keys, state))
    });
    let damage = damage::Damage {
        partitions: partitions.collect(),
        dead_letters: BTreeMap::from([(text(), "redis-cli RENAME a b".to_owned())]),
    };
    damage.findings()
}

fn of_schemas(config: &Config) -> Vec<Finding> {
    let missing = |id: &str| SchemaError::Missing(name(id));
    let schema = |names: &[&str]| {
        let names = names.iter().map(|text| name(text)).collect();
        Schema::new(names).expect("a schema")
    };
    let v1 = name("v1");
    let declared = "[schemas.v1]\ncounters = [\"like\", \"read\"]\n";
    let declaring = Config::parse(declared).expect("a configuration");
    vec![
        schemas::of_error(config, &v1, &missing("v1")),
        schemas::of_error(config, &name("other"), &missing("other")),
        schemas::of_error(config, &v1, &SchemaError::Damaged(text(), text())),
        schemas::of_error(&declaring, &v1, &missing("v1")),
        schemas::of_stored(&declaring, &schema(&["read"]), &v1),
        schemas::of_stored(&declaring, &schema(&["like"]), &v1),
        schemas::of_missing_counter(&name("note"), &v1, &name("like")),
        schemas::of_new_user_counters(&[name("unread")]),
    ]
}

fn of_topic(config: &Config) -> Vec<Finding> {
    let kafka = &config.kafka;
    let errors = [
        TopicError::Unavailable(text()),
        TopicError::TooLarge(text()),
        TopicError::Settings(rdkafka::error::KafkaError::Canceled),
        TopicError::Missing(text()),
        TopicError::Forbidden(text(), text()),
        TopicError::Partitions {
            topic: text(),
            found: 3,
            max: 8,
        },
        TopicError::OtherTopic {
            stored: text(),
            configured: text(),
        },
        TopicError::Recreated {
            topic: text(),
            found: text(),
            stored: text(),
        },
        TopicError::Grown {
            topic: text(),
            found: 8,
            stored: 4,
        },
        TopicError::Refused(text()),
        TopicError::Truncated(Truncation {
            partition: 1,
            end: 2,
            position: 3,
        }),
        TopicError::Data(text()),
        TopicError::Store(StoreError::OtherSettings),
    ];
    let risks = [
        TopicRisk::Leaderless(1),
        TopicRisk::SingleReplica,
        TopicRisk::NoIds,
        TopicRisk::MayNotRead,
        TopicRisk::MayNotWrite,
        TopicRisk::CleanupPolicy(text()),
        TopicRisk::MinInsyncReplicas,
        TopicRisk::RetentionBytes(text()),
        TopicRisk::RetentionMs(1),
        TopicRisk::UncleanElection,
        TopicRisk::NotCopied(1),
        TopicRisk::UnknownConfiguration(text()),
        TopicRisk::Group {
            group: text(),
            error: text(),
        },
    ];
    let errors = errors.iter().map(|error| topic::of_error(kafka, error));
    let risks = risks.iter().map(|risk| topic::of_risk(kafka, risk));
    errors
        .chain(risks)
        .chain([topic::of_former("events")])
        .collect()
}

fn of_databases() -> Vec<Finding> {
    let mut findings = Vec::new();
    for url in ["postgres://shop:x@db:5432/shop", "mysql://shop:x@db/shop"] {
        let config = format!("[relay]\nurl = \"{url}\"\n[sink]\nurl = \"{url}\"\n");
        let config = Config::parse(&config).expect("a configuration");
        let timeout = || DatabaseError::Timeout(Duration::from_secs(1));
        let of_table = RelayError::Table {
            table: text(),
            error: timeout(),
        };
        for error in [
            RelayError::NoDatabase,
            of_table,
            RelayError::Database(timeout()),
            RelayError::Unsettled {
                changed: 1,
                expected: 2,
            },
            RelayError::Before,
        ] {
            findings.push(databases::of_relay(&config, &error));
        }
        let lacks = [
            TableLack::Table,
            TableLack::Column("msg_id"),
            TableLack::Type("count_key"),
            TableLack::Unique(&["msg_id", "count_key"]),
            TableLack::Permission,
        ];
        let tables = lacks.map(|lack| SinkError::Table {
            table: "t_count".to_owned(),
            problem: text(),
            lack,
        });
        let others = [
            SinkError::NoDatabase,
            SinkError::Database(timeout()),
            SinkError::Store(StoreError::OtherSettings),
            SinkError::UnknownLayout,
            SinkError::Topic(TopicError::Missing(text())),
            SinkError::Replaced,
        ];
        for error in tables.into_iter().chain(others) {
            findings.push(databases::of_sink(&config, &error));
        }
    }
    findings
}

fn every() -> Vec<Finding> {
    let config = Config::parse("").expect("the defaults");
    [
        of_start(),
        of_servers(),
        of_layout(),
        of_damage(),
        of_schemas(&config),
        of_topic(&config),
        of_databases(),
    ]
    .concat()
}

/// The lines of this directory that make a finding with a problem or a note, as `file:line`.
fn places() -> BTreeSet<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/check");
    let entries = fs::read_dir(dir).expect("the source is there");
    let files = entries.map(|entry| entry.expect("it can be read").path());
    let is_checked = |file: &PathBuf| !file.ends_with("report.rs") && !file.ends_with("every.rs");
    let mut places = BTreeSet::new();
    for file in files.filter(is_checked) {
        let text = fs::read_to_string(&file).expect("a text");
        let code = text.split("#[cfg(test)]\n").next();
        let file = file.file_name().expect("a name").to_string_lossy();
        for (at, line) in code.unwrap_or_default().lines().enumerate() {
            if line.contains("Finding::note(") || line.contains("Finding::problem(") {
                places.insert(format!("{file}:{}", at + 1));
            }
        }
    }
    places
}

#[test]
fn every_place_that_makes_a_finding_is_walked() {
    let made = every().into_iter().map(|finding| {
        let file = Path::new(finding.at.file()).file_name();
        let file = file.expect("a name").to_string_lossy().into_owned();
        format!("{file}:{}", finding.at.line())
    });
    let made: BTreeSet<String> = made.collect();
    let places = places();
    assert!(places.len() > 20, "{places:?}");
    let missing: Vec<&String> = places.difference(&made).collect();
    assert!(missing.is_empty(), "not made by this test: {missing:?}");
}

#[test]
fn every_finding_has_a_command_or_a_reason_why_there_is_none() {
    for finding in every() {
        let (commands, advice) = finding.remedy();
        let has_advice = advice.is_some_and(|advice| advice.len() > 20);
        assert!(!commands.is_empty() || has_advice, "{finding:?}");
        for command in commands {
            let program = command.split(' ').next().unwrap_or_default();
            assert!(PROGRAMS.contains(&program), "{command}");
            // The words of choices and names stand for themselves.
            let command = command.replace("all|none|OFFSET", "all");
            let command = command.replace("NAME ...", "like");
            if program == "countd" {
                let parsed = Cli::try_parse_from(command.split(' '));
                assert!(
                    parsed.is_ok(),
                    "{command}: {}",
                    parsed.err().map_or(text(), |e| e.to_string())
                );
            }
        }
    }
}
