//! Tables that cannot be used.

use super::{config, database};
use crate::support::database::{Database, Kind, PASSWORD, for_each_database};
use crate::support::{printed, run};
use countint_tests::Server;

/// Asserts that neither `countd check` nor the sink accepts the tables. The sink would run on.
#[track_caller]
fn assert_refused(server: &Server, database: &Database, settings: &str, part: &str) {
    for command in ["check", "sink"] {
        let output = run(server, &config(database, settings), &[command]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command}: {part}");
        assert!(errors.contains(part), "{command}: {part}: {errors}");
        assert!(!errors.contains(PASSWORD), "{errors}");
    }
}

fn tables_without_a_unique_index_are_refused(kind: Kind) {
    let database = database(kind);
    let server = Server::start();
    crate::support::set_schema(&server, &config(&database, ""));
    let checked = printed(&run(&server, &config(&database, ""), &["check"]));
    assert!(checked.contains("sink: ok"), "{checked}");
    let change = |postgres: &str, mariadb: &str| {
        database.execute(match kind {
            Kind::Postgres => postgres,
            Kind::MariaDb => mariadb,
        });
    };
    let refused = |settings: &str, part: &str| assert_refused(&server, &database, settings, part);
    refused("state = \"other\"", "the table other does not exist");
    change(
        "ALTER TABLE t_count DROP CONSTRAINT t_count_msg_id_count_key_key",
        "ALTER TABLE t_count DROP INDEX msg_id",
    );
    let missing = "the table t_count has no unique index on (msg_id, count_key)";
    refused("", missing);
    // These do not make the two columns unique together.
    database.execute("CREATE UNIQUE INDEX wide ON t_count (msg_id, count_key, count_value)");
    database.execute("CREATE INDEX plain ON t_count (msg_id, count_key)");
    refused("", missing);
    database.execute("CREATE UNIQUE INDEX narrow ON t_count (count_key, msg_id)");
    let checked = printed(&run(&server, &config(&database, ""), &["check"]));
    assert!(checked.contains("sink: ok"), "{checked}");
    change(
        "ALTER TABLE t_praise_detail DROP CONSTRAINT t_praise_detail_user_id_msg_id_key",
        "ALTER TABLE t_praise_detail DROP INDEX user_id",
    );
    refused(
        "",
        "the table t_praise_detail has no unique index on (user_id, msg_id)",
    );
}

fn tables_with_other_columns_are_refused(kind: Kind) {
    let database = database(kind);
    let server = Server::start();
    let alter = |column: &str, of_type: &str| {
        database.execute(&match kind {
            Kind::Postgres => format!("ALTER TABLE t_count ALTER COLUMN {column} TYPE {of_type}"),
            Kind::MariaDb => {
                format!("ALTER TABLE t_count MODIFY COLUMN {column} {of_type} NOT NULL")
            }
        });
    };
    let refused = |part: &str| assert_refused(&server, &database, "", part);
    alter("msg_id", "integer");
    refused("the table t_count has a column msg_id that cannot hold ids");
    alter("msg_id", "bigint");
    alter("count_value", "integer");
    refused("the table t_count has a column count_value");
    alter("count_value", "bigint");
    alter("count_key", "varchar(31)");
    refused("the table t_count has a column count_key");
    alter("count_key", "varchar(32)");
    if kind == Kind::MariaDb {
        alter(
            "count_key",
            "varchar(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        );
        refused("binary collation");
        alter("count_key", "varchar(32)");
    }
    database.execute("ALTER TABLE t_praise_detail DROP COLUMN create_time");
    refused("the table t_praise_detail has no column create_time");
}

#[test]
fn a_sink_needs_a_database() {
    let server = Server::start();
    let output = run(&server, "", &["sink"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("sink.url is not set"),
        "{errors}"
    );
}

for_each_database! {
    tables_without_a_unique_index_are_refused
    tables_with_other_columns_are_refused
}
