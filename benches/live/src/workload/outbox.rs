//! The outbox table that `countd relay` reads, in each kind of database, and the application that inserts its rows.

use crate::driver::database::DatabaseKind;

/// The statements that create the documented tables.
pub fn tables(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Postgres => {
            "CREATE TABLE event_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id varchar(64) NOT NULL UNIQUE, \
             event_type varchar(256) NOT NULL, aggregate_type varchar(32) NOT NULL, aggregate_id varchar(64) NOT NULL, \
             payload text NOT NULL);
             CREATE TABLE event_outbox_dead (event_id text, event_type text, aggregate_type text, aggregate_id text, payload text, \
             reason text NOT NULL, dead_at timestamptz NOT NULL DEFAULT now())"
        }
        DatabaseKind::MariaDb => {
            "CREATE TABLE event_outbox (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, \
             event_type VARCHAR(256) NOT NULL, aggregate_type VARCHAR(32) NOT NULL, aggregate_id VARCHAR(64) NOT NULL, \
             payload TEXT NOT NULL) CHARACTER SET utf8mb4;
             CREATE TABLE event_outbox_dead (event_id TEXT, event_type TEXT, aggregate_type TEXT, aggregate_id TEXT, payload LONGTEXT, \
             reason TEXT NOT NULL, dead_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP) CHARACTER SET utf8mb4"
        }
    }
}

/// The statement that inserts reads of a thousand notes.
pub fn fill(kind: DatabaseKind, events: u64) -> String {
    let (number, rows) = match kind {
        DatabaseKind::Postgres => ("i", format!("generate_series(1, {events}::bigint) AS i")),
        DatabaseKind::MariaDb => ("seq", format!("seq_1_to_{events}")),
    };
    format!(
        "INSERT INTO event_outbox (event_id, event_type, aggregate_type, aggregate_id, payload) \
         SELECT 114327608932745216 + {number}, 'read', 'note', 7000000000000000 + {number} * 7919 % 1000, \
         CONCAT('{{\"delta\": 1, \"uid\": \"', 1000000000000000 + {number}, '\", \"ts\": 1763750000000}}') FROM {rows}"
    )
}

/// The statement that updates the statistics of the table, as the database does on its own after many changes.
pub fn analyze(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Postgres => "VACUUM ANALYZE event_outbox",
        DatabaseKind::MariaDb => "ANALYZE TABLE event_outbox",
    }
}

/// The statement of a transaction of the application, without what it changes besides: that only makes it slower.
pub fn insert(kind: DatabaseKind) -> String {
    // MariaDB 10.11 has no function for random UUIDs.
    let (id, number) = match kind {
        DatabaseKind::Postgres => ("gen_random_uuid()", "(random() * 1000)::bigint"),
        DatabaseKind::MariaDb => ("UUID()", "CAST(RAND() * 1000 AS UNSIGNED)"),
    };
    format!(
        "INSERT INTO event_outbox (event_id, event_type, aggregate_type, aggregate_id, payload) VALUES \
         ({id}, 'read', 'note', 7000000000000000 + {number}, \
         '{{\"delta\": 1, \"uid\": \"1000000000000001\", \"ts\": 1763750000000}}')"
    )
}
