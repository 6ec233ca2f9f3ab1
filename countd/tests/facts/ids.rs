//! Users of all kinds of ids, few and many.

use super::*;
use crate::support::stores::move_days_back;
use crate::support::{assert_refused, with};

pub fn many_users_come_page_by_page(world: TestStore) {
    let countd = start(&world.server);
    let api = countd.api();
    for (eid, users) in [(1, 2_000), (2, 100), (3, 1), (4, 0)] {
        // Ids of one chunk of bits and of many.
        let uids: Vec<u64> = (0..users).map(|i| i * 997 + eid).collect();
        for way in WAYS {
            let lines = uids
                .iter()
                .map(|uid| with(on(eid, *uid), json!({ "metric": way })).to_string());
            let lines: Vec<String> = lines.collect();
            if lines.is_empty() {
                continue; // there is no request without an action
            }
            let (status, answer) = api
                .try_post("/actions", &lines.join("\n"))
                .expect("an answer");
            assert!(status == 200 && !answer.contains("error"), "{answer}");
        }
        let expected: BTreeSet<String> = uids.iter().map(u64::to_string).collect();
        let descending: Vec<String> = uids.iter().rev().map(u64::to_string).collect();
        for way in WAYS {
            for limit in [3, 50, 500] {
                let found = who(&api, way, eid, limit);
                if way == "bitmap" || (way == "rbm" && world.has_module) {
                    assert_eq!(found, descending, "{way} {eid}");
                }
                assert_eq!(set(found), expected, "{way} {eid}");
            }
        }
        if eid == 1 {
            move_days_back(&world, PARTITIONS);
            wait_until_compacted(&world, PARTITIONS);
        }
        assert_eq!(
            set(who(&api, "daily", eid, 7)),
            expected,
            "also when they are old"
        );
    }
    for way in WAYS {
        for cursor in ["x", "-1", "1.2", "99.0.", "1.0.a:b"] {
            let (status, answer) = api.get(&format!("/who/{way}/note/1?cursor={cursor}"));
            let is_day = way == "daily" && cursor == "99.0.";
            assert_eq!(status == 400, !is_day, "{way} {cursor}: {answer}");
        }
    }
}

pub fn ids_that_do_not_fit_are_refused(world: TestStore) {
    let countd = start(&world.server);
    let api = countd.api();
    for (way, uids) in [
        (
            "rbm",
            vec![json!("alice"), json!("007"), json!("18446744073709551616")],
        ),
        (
            "bitmap",
            vec![
                json!("alice"),
                json!("00"),
                json!(4_294_967_296_u64),
                json!(u64::MAX),
            ],
        ),
    ] {
        for uid in uids {
            assert_refused(
                &api,
                &format!("/action/{way}"),
                &on(1, uid.clone()),
                422,
                "unprocessable",
            );
            let uid = uid.to_string().replace('"', "");
            let (status, _) = api.get(&format!("/status/note/1?uid={uid}&metrics={way}"));
            assert_eq!(status, 422, "{way} {uid}");
        }
        assert_eq!(who(&api, way, 1, 10), [""; 0]);
    }
    let uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    for way in ["daily", "sharded"] {
        assert_eq!(
            api.act(way, on(1, uuid)),
            json!({ "changed": true, "count": 1 })
        );
        assert_eq!(api.act(way, on(1, uuid))["changed"], false);
        assert_eq!(who(&api, way, 1, 10), [uuid]);
    }
    assert_eq!(api.act("bitmap", on(1, u32::MAX))["count"], 1);
    assert_eq!(who(&api, "bitmap", 1, 1), [u32::MAX.to_string()]);
    api.act("unbitmap", on(1, u32::MAX));
    let mut client = world.server.client();
    let chunks = world.key("bm:bitmap:note:1:", "chunks", "note:1");
    let chunk = world.key("bm:bitmap:note:1:", "131071", "note:1");
    assert_eq!(
        reply::int(client.ok(&format!("EXISTS {chunks} {chunk}"))),
        0,
        "nothing is left"
    );
}
