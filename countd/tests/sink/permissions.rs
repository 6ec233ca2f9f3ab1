//! The Redis user of a sink.

use super::{Rows, Warehouse};
use crate::support::database::{Kind, for_each_database};
use crate::support::{Countd, Settings, on_note, printed, run};

/// As a Redis user with the permissions that `countd acl` prints, and no others.
fn the_printed_user_may_keep_tables(kind: Kind) {
    let warehouse = Warehouse::start(kind, "");
    let users = printed(&run(
        &warehouse.store.server,
        &warehouse.config,
        &["acl", "--user", "shop"],
    ));
    let user = users.lines().find(|line| line.contains(" shop-sink "));
    let mut operator = warehouse.store.server.client();
    operator.ok(&user.expect("a user").replace(">PASSWORD", ">secret"));
    let (command, config) = ("sink", warehouse.config.as_str());
    let settings = Settings { command, config };
    let mut expected = Rows::default();
    warehouse.api().act("like", on_note(1, 1));
    let sink = Countd::as_user(&warehouse.store.server, &settings, "shop-sink");
    warehouse.wait_for_pass(&sink, 1);
    warehouse.api().act("like", on_note(1, 2));
    expected.like("1", 1..=2);
    warehouse.wait_for(&expected);
    assert_eq!(warehouse.store.refused_commands(), Vec::<String>::new());
}

for_each_database! { the_printed_user_may_keep_tables }
