//! The databases of the relay and the sink.

use super::{CONFIG, commands, findings, found, quoted};
use crate::support::database::{Database, Kind, PASSWORD, for_each_database};
use crate::support::{printed, run, set_schema};
use countint_tests::Server;
use serde_json::Value as Json;

/// A server of each kind.
struct Setup {
    server: Server,
    database: Database,
}

impl Setup {
    fn new(kind: Kind) -> Setup {
        let server = Server::builder().append_only(true).start();
        set_schema(&server, CONFIG);
        let database = Database::start(kind);
        Setup { server, database }
    }

    /// The only finding.
    #[track_caller]
    fn finding(&self, config: &str) -> Json {
        let all = findings(&self.server, config);
        assert_eq!(all.len(), 1, "{all:?}");
        let text = all[0].to_string();
        assert!(!text.contains(PASSWORD), "{text}");
        all[0].clone()
    }

    /// Executes the statements of the commands as the owner.
    #[track_caller]
    fn repair(&self, finding: &Json) {
        let commands = commands(finding);
        assert!(!commands.is_empty(), "{finding}");
        for command in commands {
            let program = match self.database.kind {
                Kind::Postgres => "psql -h 127.0.0.1 -p ",
                Kind::MariaDb => "mysql -h 127.0.0.1 -P ",
            };
            assert!(command.starts_with(program), "{command}");
            self.database.execute(&quoted(&command));
        }
    }

    #[track_caller]
    fn assert_well(&self, config: &str, line: &str) {
        let checked = printed(&run(&self.server, config, &["doctor"]));
        assert!(checked.contains(line), "{checked}");
    }
}

fn relay(url: &str, settings: &str) -> String {
    format!("{CONFIG}[relay]\nurl = \"{url}\"\ntimeout_ms = 5000\n{settings}\n")
}

fn sink(url: &str) -> String {
    format!("{CONFIG}[sink]\nurl = \"{url}\"\ntimeout_ms = 5000\n")
}

/// Without tables, without a column, and without permissions.
fn the_tables_of_a_relay_are_created_and_repaired(kind: Kind) {
    let setup = Setup::new(kind);
    let url = setup.database.url();
    let config = relay(&url, "sent = \"mark\"");
    let missing = setup.finding(&config);
    assert_eq!(missing["severity"], "problem");
    setup.repair(&missing);
    setup.assert_well(&config, "relay: ok\n");
    for (table, column) in [
        ("event_outbox", "sent_at"),
        ("event_outbox", "payload"),
        ("event_outbox_dead", "reason"),
    ] {
        let drop = format!("ALTER TABLE {table} DROP COLUMN {column}");
        setup.database.execute(&drop);
        let missing = setup.finding(&config);
        let repairs = commands(&missing);
        assert_eq!(repairs.len(), 1, "{missing}");
        assert!(repairs[0].contains("ADD COLUMN"), "{missing}");
        setup.repair(&missing);
        setup.assert_well(&config, "relay: ok\n");
    }
    // The user may read the tables, but not change them.
    let poor = setup.database.url_of_poor();
    let grantee = if kind == Kind::Postgres {
        "poor"
    } else {
        "poor@'%'"
    };
    for table in ["event_outbox", "event_outbox_dead"] {
        setup
            .database
            .execute(&format!("GRANT SELECT ON {table} TO {grantee}"));
    }
    let config = relay(&poor, "");
    let denied = setup.finding(&config);
    assert!(
        commands(&denied)[0].contains("GRANT SELECT, UPDATE, DELETE ON"),
        "{denied}"
    );
    setup.repair(&denied);
    setup.assert_well(&config, "relay: ok\n");
}

/// Each run names the first table that cannot be used.
fn the_tables_of_a_sink_are_created_and_repaired(kind: Kind) {
    let setup = Setup::new(kind);
    let config = sink(&setup.database.url());
    for table in ["t_praise_detail", "t_count", "t_sink_state"] {
        let missing = setup.finding(&config);
        let text = missing["text"].as_str().expect("a text");
        assert!(
            text.contains(&format!("the table {table} does not exist")),
            "{text}"
        );
        setup.repair(&missing);
    }
    setup.assert_well(&config, "sink: ok\n");
    let of_kind = |postgres: &str, mariadb: &str| match kind {
        Kind::Postgres => postgres.to_owned(),
        Kind::MariaDb => mariadb.to_owned(),
    };
    for (damage, part) in [
        (
            "ALTER TABLE t_praise_detail DROP COLUMN create_time".to_owned(),
            "no column create_time",
        ),
        (
            of_kind(
                "ALTER TABLE t_count ALTER COLUMN count_value TYPE integer",
                "ALTER TABLE t_count MODIFY COLUMN count_value INT NOT NULL",
            ),
            "count_value that is not a 64-bit integer",
        ),
        (
            of_kind(
                "ALTER TABLE t_count DROP CONSTRAINT t_count_msg_id_count_key_key",
                "ALTER TABLE t_count DROP INDEX msg_id",
            ),
            "no unique index on (msg_id, count_key)",
        ),
    ] {
        setup.database.execute(&damage);
        let finding = setup.finding(&config);
        found(std::slice::from_ref(&finding), part);
        setup.repair(&finding);
        setup.assert_well(&config, "sink: ok\n");
    }
    let poor = setup.database.url_of_poor();
    let grantee = if kind == Kind::Postgres {
        "poor"
    } else {
        "poor@'%'"
    };
    for table in ["t_praise_detail", "t_count", "t_sink_state"] {
        setup
            .database
            .execute(&format!("GRANT SELECT ON {table} TO {grantee}"));
    }
    let config = sink(&poor);
    for table in ["t_praise_detail", "t_count", "t_sink_state"] {
        let denied = setup.finding(&config);
        found(
            std::slice::from_ref(&denied),
            &format!("the table {table} may not be written"),
        );
        setup.repair(&denied);
    }
    setup.assert_well(&config, "sink: ok\n");
}

/// A database that is away, a wrong password, and a database that does not exist.
fn a_database_that_does_not_answer_is_named_without_its_password(kind: Kind) {
    let mut setup = Setup::new(kind);
    let url = setup.database.url();
    let wrong = setup.finding(&relay(&url.replace(PASSWORD, "wrong"), ""));
    assert!(commands(&wrong)[0].ends_with(" 'SELECT 1'"), "{wrong}");
    let other = setup.finding(&relay(&format!("{url}_other"), ""));
    assert!(
        commands(&other)[0].ends_with(" 'CREATE DATABASE shop_other'"),
        "{other}"
    );
    setup.database.kill();
    for config in [relay(&url, ""), sink(&url)] {
        let away = setup.finding(&config);
        assert!(commands(&away).is_empty(), "{away}");
        let advice = away["advice"].as_str().expect("an advice");
        assert!(
            advice.contains("start the server at 127.0.0.1:"),
            "{advice}"
        );
    }
}

for_each_database! {
    the_tables_of_a_relay_are_created_and_repaired
    the_tables_of_a_sink_are_created_and_repaired
    a_database_that_does_not_answer_is_named_without_its_password
}
