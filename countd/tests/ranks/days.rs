//! Changes of the day.

use super::{PARTITIONS, act, check, config, items, now_ms, page, wait_until_right};
use crate::support::kafka::Log;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{Countd, Settings, set_schema};
use countint_tests::{Clock, wait_until};
use serde_json::Value as Json;

for_each_store! {
    [module plain cluster]
    the_day_change_loses_nothing
}

fn the_day_change_loses_nothing(store: TestStore) {
    assert_day_change_loses_nothing(&store, &Log::streams(&config()));
}

/// Asserts that the ranking is exact while days change.
pub fn assert_day_change_loses_nothing(store: &TestStore, log: &Log) {
    let (config, clock) = (log.config.as_str(), Clock::new());
    set_schema(&store.server, config);
    let command = "all";
    let settings = Settings { command, config };
    let countd = Countd::with_clock(&store.server, &settings, &clock);
    let api = countd.api();
    let mut random = Random(3);
    act(&api, &mut random, 300);
    log.drain(&store.server, PARTITIONS);
    let before = wait_until_right(&api);
    let first = page(&api, "&limit=2").1;
    let cursor = format!("&cursor={}", first["cursor"].as_str().expect("a cursor"));
    // The next day is complete, too.
    let mut client = store.server.client();
    let state = store.key("rank:hot:note:state", "", "note:1");
    wait_until("tomorrow is complete", || {
        let fields = countint_tests::reply::array(client.call(&["HKEYS", &state]));
        let fields = fields.into_iter().map(countint_tests::reply::text);
        fields
            .filter(|field| field.starts_with("complete:"))
            .count()
            >= 2
    });
    // A minute after midnight.
    let to_midnight = 86_400 - (now_ms() / 1_000) % 86_400;
    clock.set(to_midnight as i64 + 60);
    wait_until("the next day is served", || {
        let (status, page) = page(&api, "");
        assert_eq!(status, 200, "{page}");
        assert!(check(&api, &page), "{page}");
        page["day"] != before["day"]
    });
    // Pages go on in the day in which they began.
    let (status, second) = page(&api, &cursor);
    assert_eq!((status, &second["day"]), (200, &before["day"]), "{second}");
    assert_eq!(items(&second), items(&before)[2..]);
    act(&api, &mut random, 100);
    log.drain(&store.server, PARTITIONS);
    let after = wait_until_right(&api);
    assert_ne!(after["day"], before["day"]);
    // Two hours later they have ended.
    clock.set(to_midnight as i64 + 7_200);
    wait_until("yesterday's ranking ends", || page(&api, &cursor).0 == 400);
    wait_until_right(&api);
    // After days without a process, the days begin anew.
    clock.set(to_midnight as i64 + 4 * 86_400);
    wait_until("a later day is served", || {
        let (status, page) = page(&api, "");
        status == 200 && page["day"].as_str() > after["day"].as_str()
    });
    let last: Json = wait_until_right(&api);
    assert!(last["day"].as_str() > after["day"].as_str());
}
