//! Redis users with limited permissions: missing permissions are reported at the start, and a permission that is revoked later
//! loses and duplicates nothing.

mod users;

use crate::support::stores::{TestStore, for_each_store, move_days_back};
use crate::support::{
    Api, Countd, Settings, on_note, printed, run, set_schema, wait_until_drained, with,
};
use countint_tests::{Client, reply, wait_until};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 16;
const CONFIG: &str = r#"
[log]
partitions = 16
[consumer]
linger_ms = 5
[limits.user]
per_second = 0
[facts]
compaction_interval_seconds = 1
[metrics.read]
nature = "repeatable"
count = "now"
[metrics.like]
nature = "once"
count = "now"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.fav]
nature = "once"
count = "now"
facts = "sharded"
[metrics.repost]
nature = "once"
count = "now"
facts = "bitmap"
[metrics.comment]
nature = "once"
count = "now"
facts = "daily"
"#;
const METRICS: [&str; 5] = ["read", "like", "fav", "repost", "comment"];

/// Commands that scripts call.
const COMMANDS: &str = "bitfield bitfield_ro bitpos cint.batchincr cint.get cint.len del exists getbit rbm.add rbm.contains \
    rbm.mark rbm.rem rbm.unmark sadd scard set setbit sismember spop srem strlen xadd xdel zadd zcard zrem zrevrange ctab.card ctab.mget ctab.batchincr";

/// A user with all permissions, independent of the default user.
fn operator(store: &TestStore) -> Client {
    let mut client = store.server.client();
    client.ok("ACL SETUSER operator on nopass ~* &* +@all");
    client.ok("AUTH operator any");
    client
}

fn deny(operator: &mut Client, command: &str) {
    // A server without the module refuses its commands as unknown.
    operator.run(&format!("ACL SETUSER default -{command}"));
}

fn allow(operator: &mut Client) {
    operator.ok("ACL SETUSER default +@all");
}

/// A hash of all data except heartbeats of processes and their reports of hot entities.
fn digest(operator: &mut Client) -> String {
    let keys = reply::array(operator.ok("KEYS *"));
    let mut keys: Vec<String> = keys.into_iter().map(reply::text).collect();
    keys.retain(|key| key != "countd:processes" && !key.starts_with("countd:hot"));
    keys.sort_unstable();
    let mut command = vec!["DEBUG", "DIGEST-VALUE"];
    command.extend(keys.iter().map(String::as_str));
    let digests = reply::array(operator.call(&command));
    let digests = digests.into_iter().map(reply::text);
    keys.join(" ") + &digests.collect::<Vec<_>>().join(" ")
}

fn start(store: &TestStore, command: &'static str) -> Countd {
    let config = CONFIG;
    Countd::with(&store.server, &Settings { command, config })
}

/// An action with an idempotency key. Returns the status.
fn act(api: &Api, metric: &str, uid: u64, op: &str, key: &str) -> u16 {
    let action = with(on_note(1, uid), json!({ "op": op, "idempotencyKey": key }));
    api.post(&format!("/action/{metric}"), &action).0
}

fn action_without_permission_changes_nothing(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let countd = start(&store, "serve");
    let api = countd.api();
    let mut operator = operator(&store);
    for metric in METRICS {
        assert_eq!(act(&api, metric, 1, "add", "first"), 200, "{metric}");
    }
    let mut refusals = 0;
    for (uid, command) in (100..).zip(COMMANDS.split_whitespace()) {
        for metric in METRICS {
            for (uid, op) in [(uid, "add"), (1, "remove"), (1, "add")] {
                let key = format!("{command}-{op}");
                deny(&mut operator, command);
                let before = digest(&mut operator);
                let status = act(&api, metric, uid, op, &key);
                if status != 200 {
                    refusals += 1;
                    assert_eq!(status, 500, "{op} {metric} without {command}");
                    assert_eq!(
                        digest(&mut operator),
                        before,
                        "{op} {metric} without {command}"
                    );
                }
                allow(&mut operator);
                assert_eq!(act(&api, metric, uid, op, &key), 200, "{op} {metric}");
            }
        }
    }
    assert!(refusals > 50, "{refusals}");
    // The facts agree with the counters.
    let counts = api.counts(1);
    for metric in &METRICS[1..] {
        let who = api.ok(api.get(&format!("/who/{metric}/note/1?limit=500")));
        let users = who["users"].as_array().expect("users").len();
        assert_eq!(counts[*metric], json!(users), "{metric}");
    }
    let times = COMMANDS.split_whitespace().count() + 1;
    assert_eq!(counts["read"], json!(times));
}

fn batch_without_permission_is_counted_later_and_once(store: TestStore) {
    let config = CONFIG.replacen("count = \"now\"", "count = \"batched\"", 1);
    let config: &'static str = config.leak();
    set_schema(&store.server, config);
    let command = "all";
    let countd = Countd::with(&store.server, &Settings { command, config });
    let mut operator = operator(&store);
    let log = store.log(TestStore::partition("note:1", PARTITIONS));
    let counter_commands = match (store.has_module, store.has_tables) {
        (false, _) => ["bitfield", "strlen"],
        (true, false) => ["cint.len", "cint.batchincr"],
        (true, true) => ["ctab.card", "ctab.mincrby"],
    };
    let commands = ["hset", "xdel", "set", "exists", "xadd"];
    let commands = commands.into_iter().chain(counter_commands);
    let event = |more: Json| with(on_note(1, 9), more).to_string();
    for (round, command) in (1_u64..).zip(commands) {
        deny(&mut operator, command);
        let event_id = format!("e{round}");
        let envelope = json!({
            "event_id": event_id, "event_type": "x", "aggregate_type": "note", "aggregate_id": 1,
            "payload": { "metric": "read", "delta": 1, "uid": 9 },
        });
        let good = event(json!({ "metric": "read", "delta": 1 }));
        let author = json!({ "metric": "like", "delta": 1, "author": 7 });
        let step = ["MULTI", "EXEC"].map(|word| vec![word.to_owned()]);
        let [multi, exec] = step;
        let append = |field: &str, payload: String| {
            let words = ["XADD", &log, "0-*", field];
            let mut words = words.map(str::to_owned).to_vec();
            words.push(payload);
            words
        };
        operator.pipeline(&[
            multi,
            append("e", good),
            append("e", "{".to_owned()),
            append("o", envelope.to_string()),
            append("e", event(author)),
            exec,
        ]);
        let known = countd.log().len();
        wait_until("it is refused", || {
            countd.log()[known..].contains("worker failed; will retry")
        });
        allow(&mut operator);
        wait_until_drained(&store.server, PARTITIONS);
        let api = countd.api();
        wait_until("all of it is counted", || {
            api.counts(1)["read"] == 2 * round
        });
        let letters = printed(&run(&store.server, config, &["dead", "list"]));
        assert_eq!(letters.lines().count() as u64, round, "{command}");
        wait_until("also for the author", || {
            api.user(7)["likesReceived"] == round
        });
    }
}

fn compaction_without_permission_loses_no_fact(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let serve = start(&store, "serve");
    let api = serve.api();
    let users: Vec<Json> = (0..20)
        .map(|i| json!(i))
        .chain(["a".into(), "b".into()])
        .collect();
    for user in &users {
        let action = json!({ "etype": "note", "eid": 1, "uid": user });
        assert_eq!(api.act("comment", action)["changed"], true);
    }
    move_days_back(&store, PARTITIONS);
    let consume = start(&store, "consume");
    let mut operator = operator(&store);
    let adds = if store.has_module { "rbm.add" } else { "sadd" };
    for command in [adds, "sadd", "zrem", "exists"] {
        deny(&mut operator, command);
        let known = consume.log().len();
        let days = store.days(TestStore::partition("note:1", PARTITIONS));
        wait_until("compaction is refused, or has nothing to do", || {
            consume.log()[known..].contains("a day cannot be compacted")
                || operator.run(&format!("ZCARD {days}")) == "(integer) 0"
        });
        allow(&mut operator);
        for user in &users {
            let uid = user.as_str().map_or(user.to_string(), str::to_owned);
            let status = api.ok(api.get(&format!("/status/note/1?uid={uid}&metrics=comment")));
            assert_eq!(status["status"]["comment"], true, "{uid} without {command}");
        }
        move_days_back(&store, PARTITIONS);
    }
}

/// Runs commands that must fail. Returns the error of the first.
fn errors(store: &TestStore, commands: &[&str]) -> String {
    let said = commands.iter().map(|command| {
        let output = run(&store.server, CONFIG, &[command]);
        assert!(!output.status.success(), "{command}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    });
    let said: Vec<String> = said.collect();
    said[0].clone()
}

fn missing_permissions_are_named_at_the_start(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let mut operator = operator(&store);
    let all = ["check", "consume", "serve"];
    let (counts, other) = match store.has_module {
        true => ("cint.batchincr", "CINT.BATCHINCR"),
        false => ("bitfield", "BITFIELD"),
    };
    for (command, name) in [("xadd", "XADD"), (counts, other)] {
        deny(&mut operator, command);
        let said = errors(&store, &all);
        let end = format!("may not use: {name}\n");
        assert!(said.ends_with(&end), "{said}");
        allow(&mut operator);
    }
    let others = "~cnt:* ~tab:* ~utab:* ~usum:* ~usumh:* ~rank:* ~aut:* ~auth:* ~rbm:* ~s:* ~bm:* ~act:* ~schema:* ~countd:* ~x:*";
    operator.ok(&format!("ACL SETUSER default resetkeys {others}"));
    let said = errors(&store, &all);
    assert!(said.contains("may not use: keys such as ucnt:0"), "{said}");
    operator.ok("ACL SETUSER default %R~ucnt:*");
    // Enough for `countd serve`, which only reads the counters of users.
    let said = errors(&store, &["check", "consume"]);
    assert!(said.contains(" on keys such as ucnt:0"), "{said}");
    operator.ok("ACL SETUSER default allkeys");
    let checked = printed(&run(&store.server, CONFIG, &["check"]));
    assert!(checked.contains("permissions: ok"), "{checked}");
}

for_each_store!([module plain cluster]
    action_without_permission_changes_nothing
    batch_without_permission_is_counted_later_and_once
    compaction_without_permission_loses_no_fact
    missing_permissions_are_named_at_the_start
);

for_each_store!([objects]
    action_without_permission_changes_nothing
    batch_without_permission_is_counted_later_and_once
);
