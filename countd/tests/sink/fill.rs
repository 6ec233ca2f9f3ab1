//! Data that is older than the sink.

use super::{PARTITIONS, Rows, Warehouse, database, rows, store};
use crate::support::database::{Database, Kind, for_each_database};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{metric, on_note, wait_until_drained};
use countd::domain::config::DEFAULTS;
use serde_json::json;

/// The users of note 1: more than a page.
const FANS: u64 = 1_200;

/// Likes of notes 1 to 20, and a counter without facts.
fn act(warehouse: &Warehouse) -> Rows {
    let api = warehouse.api();
    let mut expected = Rows::default();
    let likes = (1..=FANS).map(|user| (1, user));
    let likes = likes.chain((2..=20).map(|note| (note, 5)));
    let lines = likes.map(|(note, user)| {
        format!("{{\"metric\":\"like\",\"etype\":\"note\",\"eid\":{note},\"uid\":{user}}}\n")
    });
    let lines: Vec<String> = lines.collect();
    for lines in lines.chunks(500) {
        let sent = api.try_send("/actions", "application/x-ndjson", &lines.concat());
        assert_eq!(sent.expect("a response").0, 200);
    }
    expected.like("1", 1..=FANS);
    for note in 2..=20 {
        expected.like(&note.to_string(), [5]);
    }
    api.act("read", on_note(3, 9));
    expected.count("3", "read", 1);
    expected
}

/// Data without entries in the logs, and rows that are of nothing.
fn existing_data_is_copied_and_other_rows_are_deleted(kind: Kind) {
    let warehouse = Warehouse::start(kind, "");
    let expected = act(&warehouse);
    wait_until_drained(&warehouse.store.server, PARTITIONS);
    let mut client = warehouse.store.server.client();
    for partition in 0..PARTITIONS {
        let log = warehouse.store.log(partition);
        client.ok(&format!("XTRIM {log} MAXLEN 0"));
    }
    warehouse.database.execute(
        "INSERT INTO t_praise_detail (user_id, msg_id) VALUES (1, 2), (5, 2), (77, 78); \
         INSERT INTO t_count VALUES (2, 'like', 9), (2, 'stale', 1), (99, 'like', 3)",
    );
    let sink = warehouse.sink();
    warehouse.wait_for(&expected);
    warehouse.wait_for_pass(&sink, 1);
    assert_eq!(warehouse.rows(), expected);
    // The times are not known.
    assert_eq!(
        warehouse
            .database
            .count("t_praise_detail WHERE create_time IS NOT NULL"),
        0
    );
}

/// Columns of numbers leave out other ids; columns of texts have all.
fn columns_decide_which_ids_are_kept(kind: Kind) {
    for is_text in [false, true] {
        let database = Database::start(kind);
        let mut tables = super::documented_tables(kind);
        if is_text {
            let collation = match kind {
                Kind::Postgres => "",
                Kind::MariaDb => " CHARACTER SET ascii COLLATE ascii_bin",
            };
            for integer in ["bigint NOT NULL,", "BIGINT UNSIGNED NOT NULL,"] {
                tables = tables.replace(integer, &format!("varchar(64){collation} NOT NULL,"));
            }
            // The values of counters stay numbers.
            tables = tables.replace("bigint      NOT NULL,", "varchar(64) NOT NULL,");
            tables = tables.replace(
                &format!("count_value varchar(64){collation}"),
                "count_value bigint",
            );
        }
        database.execute(&tables);
        let warehouse = Warehouse::with(database, store(kind), "");
        let api = warehouse.api();
        let mut numbers = Rows::default();
        let mut all = Rows::default();
        let max = u64::MAX.to_string();
        for note in ["7", "a-7", "A-7", "007", &max] {
            let like = json!({ "etype": "note", "eid": note, "uid": 42 });
            api.act("like", like);
            all.like(note, [42]);
        }
        numbers.like("7", [42]);
        if kind == Kind::MariaDb {
            numbers.like(&max, [42]);
        }
        let sink = warehouse.sink();
        let expected = if is_text { all } else { numbers };
        warehouse.wait_for(&expected);
        warehouse.wait_for_pass(&sink, 1);
        assert_eq!(warehouse.rows(), expected);
        let skipped = metric(&sink.api(), "countd_sink_skipped_total");
        assert_eq!(skipped == 0, is_text, "{skipped}");
    }
}

for_each_database! {
    existing_data_is_copied_and_other_rows_are_deleted
    columns_decide_which_ids_are_kept
}

/// Counters of tables, of objects and of Strings, and keys with hash tags; before the sink, and while it follows the logs.
fn data_of_each_layout_is_kept(store: TestStore) {
    let warehouse = Warehouse::with(database(Kind::Postgres), store, "");
    let mut expected = act(&warehouse);
    let sink = warehouse.sink();
    warehouse.wait_for(&expected);
    warehouse.wait_for_pass(&sink, 1);
    warehouse.api().act("like", on_note(21, 7));
    expected.like("21", [7]);
    warehouse.wait_for(&expected);
}

for_each_store! {
    [module objects plain cluster]
    data_of_each_layout_is_kept
}

/// Facts in several keys of an entity.
#[test]
fn facts_of_each_store_are_kept() {
    for facts in ["bitmap", "sharded", "daily"] {
        let (_, metrics) = DEFAULTS.split_once("[metrics.read]").expect("metrics");
        let facts = format!("nature = \"once\"\nfacts = \"{facts}\"\n");
        let metrics = metrics.replace("nature = \"once\"\n", &facts);
        let warehouse = Warehouse::start(Kind::Postgres, &format!("[metrics.read]{metrics}"));
        let mut expected = act(&warehouse);
        let sink = warehouse.sink();
        warehouse.wait_for(&expected);
        warehouse.wait_for_pass(&sink, 1);
        let like = json!({ "etype": "note", "eid": 1, "uid": 1, "op": "remove" });
        warehouse.api().act("like", like);
        expected.details.remove(&("1".to_owned(), "1".to_owned()));
        expected.like("1", []);
        warehouse.wait_for(&expected);
        assert_eq!(rows(&warehouse.database), expected);
    }
}
