//! `countd schema` and `countd check`.

use crate::support::{Countd, Settings, on_note, printed, run};
use countint_tests::{Server, env};
use serde_json::json;
use std::process::Output;
use std::thread;

fn schema(server: &Server, args: &str) -> Output {
    let args: Vec<&str> = std::iter::once("schema").chain(args.split(' ')).collect();
    run(server, "", &args)
}

#[track_caller]
fn fails(output: &Output, with: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains(with),
        "{errors}"
    );
}

#[test]
fn schemas_are_immutable_except_for_extension() {
    let server = Server::start();
    fails(&schema(&server, "get v1"), "there is no schema v1");
    fails(&schema(&server, "extend v1 read"), "there is no schema v1");
    assert_eq!(
        printed(&schema(&server, "set v1 read like")),
        "v1: read like\n"
    );
    assert_eq!(
        printed(&schema(&server, "set v1 read like")),
        "v1: read like\n"
    );
    fails(
        &schema(&server, "set v1 like read"),
        "schema v1 exists with other names: read like",
    );
    fails(&schema(&server, "set v2 a b a"), "duplicate name a");
    fails(
        &schema(&server, "extend v1 fav read"),
        "duplicate name read",
    );
    assert_eq!(
        printed(&schema(&server, "extend v1 fav")),
        "v1: read like fav\n"
    );
    printed(&schema(&server, "set t1 join"));
    assert_eq!(
        printed(&schema(&server, "list")),
        "t1: join\nv1: read like fav\n"
    );
    let mut client = server.client();
    client.expect("HGET schema:v1 len", "\"3\"");
    client.expect(
        "HMGET schema:v1 0 1 2",
        "1) \"read\"\n2) \"like\"\n3) \"fav\"",
    );
    client.expect(
        "HMGET schema:v1:idx_by_name read like fav",
        "1) \"0\"\n2) \"1\"\n3) \"2\"",
    );
    client.ok("HDEL schema:v1 1");
    fails(&schema(&server, "get v1"), "schema:v1 is damaged");
}

#[test]
fn concurrent_extensions_do_not_overwrite_each_other() {
    let server = Server::start();
    printed(&schema(&server, "set v1 a"));
    thread::scope(|scope| {
        for number in 0..6 {
            let server = &server;
            scope.spawn(move || printed(&schema(server, &format!("extend v1 n{number}"))));
        }
    });
    let names = printed(&schema(&server, "get v1"));
    let mut names: Vec<&str> = names.trim_end().split(' ').skip(1).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "n0", "n1", "n2", "n3", "n4", "n5"]);
}

#[test]
fn check_reports_problems() {
    let server = Server::start();
    let check = |config: &str| run(&server, config, &["check"]);
    fails(
        &check("[entities]\nnote = \"v1\"\n"),
        "1 schemas cannot be used",
    );
    let note = printed(&check(""));
    assert!(
        note.contains("note: there is no schema v1: countd creates it when it starts"),
        "{note}"
    );
    printed(&schema(&server, "set v1 read like fav comment"));
    let found = printed(&check(""));
    assert!(
        found.contains("1024 partitions") && found.contains("note: note has no repost"),
        "{found}"
    );
    fails(
        &check("[log]\npartitions = 512\n"),
        "this data has 1024 partitions",
    );
    fails(&check("[log]\nretian = 1\n"), "retian");
}

/// The commands that `countd doctor` prints, without `countd`.
fn repairs(server: &Server, config: &str) -> Vec<String> {
    let output = run(server, config, &["doctor"]);
    let lines = String::from_utf8(output.stdout).expect("text");
    let repairs = lines
        .lines()
        .filter_map(|line| line.strip_prefix("    countd "));
    repairs.map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_doctor_repair_what_it_finds() {
    let server = Server::builder().append_only(true).start();
    // Of a missing schema, and then of missing counters in it.
    let missing = repairs(&server, "");
    assert_eq!(missing, ["schema set v1 read like fav comment repost"]);
    let undeclared = repairs(&server, "[entities]\nnote = \"v1\"\n");
    assert_eq!(undeclared, ["schema set v1 comment fav like read repost"]);
    printed(&schema(&server, "set v1 read like fav comment"));
    let extended = repairs(&server, "");
    assert_eq!(extended, ["schema extend v1 repost"]);
    let words: Vec<&str> = extended[0].split(' ').collect();
    printed(&run(&server, "", &words));
    let found = printed(&run(&server, "", &["doctor", "--json"]));
    for line in found.lines() {
        let finding: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(finding["severity"], "ok", "{line}");
    }
    assert!(repairs(&server, "").is_empty());
    let of_partitions = run(&server, "[log]\npartitions = 512\n", &["doctor"]);
    let lines = String::from_utf8_lossy(&of_partitions.stdout).into_owned();
    assert!(
        lines.contains("    export COUNTD_LOG__PARTITIONS=1024\n"),
        "{lines}"
    );
    fails(
        &run(&server, "[log]\npartitions = 512\n", &["doctor"]),
        "1024 partitions",
    );
}

#[test]
fn the_doctor_renames_damaged_keys_and_names_what_keeps_countd_from_starting() {
    let server = Server::start();
    printed(&schema(&server, "set v1 read like fav comment repost"));
    let mut client = server.client();
    client.ok("SET x:cnt-update:7 text");
    let found = run(&server, "", &["doctor"]);
    fails(&found, "1 partitions have failed");
    let lines = String::from_utf8_lossy(&found.stdout).into_owned();
    let repair = "RENAME x:cnt-update:7 x:cnt-update:7:damaged";
    assert!(
        lines.contains(&format!("    redis-cli {repair}\n")),
        "{lines}"
    );
    client.ok(repair);
    client.ok("HSET countd:layout archive on restoring on");
    let found = run(&server, "", &["doctor"]);
    fails(&found, "being restored");
    let lines = String::from_utf8_lossy(&found.stdout).into_owned();
    for repair in ["    countd restore\n", "    countd archive end\n"] {
        assert!(lines.contains(repair), "{lines}");
    }
    client.ok("HDEL countd:layout archive restoring");
    printed(&run(&server, "", &["doctor"]));
}

#[test]
fn check_names_settings_of_the_server_that_lose_data() {
    let server = Server::start();
    printed(&schema(&server, "set v1 read like fav comment repost"));
    let client = format!("redis-cli -h 127.0.0.1 -p {} CONFIG SET", server.port());
    let found = printed(&run(&server, "", &["doctor"]));
    assert!(
        found.contains("appendonly is no") && found.contains(&format!("{client} appendonly yes")),
        "{found}"
    );
    let mut redis = server.client();
    redis.ok("CONFIG SET appendonly yes");
    redis.ok("CONFIG SET maxmemory-policy allkeys-lru");
    let output = run(&server, "", &["doctor"]);
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{found}");
    assert!(
        found.contains("maxmemory-policy is allkeys-lru")
            && found.contains(&format!("{client} maxmemory-policy noeviction")),
        "{found}"
    );
    redis.ok("CONFIG SET maxmemory-policy noeviction");
    let found = printed(&run(&server, "", &["doctor"]));
    assert!(!found.contains("CONFIG SET"), "{found}");
}

#[test]
fn check_reports_the_module_and_the_library() {
    let with_module = Server::builder().append_only(true).start();
    printed(&schema(&with_module, "set v1 read like fav comment repost"));
    let found = printed(&run(&with_module, "", &["check"]));
    assert!(
        found.contains("the module is loaded") && !found.contains("note:"),
        "{found}"
    );
    let bare = Server::builder().no_module().append_only(true).start();
    printed(&schema(&bare, "set v1 read like fav comment repost"));
    let found = printed(&run(&bare, "", &["check"]));
    let advice = "the fallback library is not loaded, which countd does not need: redis-cli -x FUNCTION LOAD REPLACE < fallback/countint.lua";
    assert!(
        found.contains("no module") && found.contains(advice),
        "{found}"
    );
    let library = env::workspace().join("fallback/countint.lua");
    let library = std::fs::read(library).expect("the library is there");
    bare.client()
        .call(&[b"FUNCTION".as_slice(), b"LOAD", &library]);
    let found = printed(&run(&bare, "", &["check"]));
    assert!(
        found.contains("no module") && found.contains("the fallback library is loaded"),
        "{found}"
    );
}

#[test]
fn the_backend_of_existing_data_does_not_change() {
    let mut server = Server::builder().no_module().append_only(true).start();
    let api = Countd::start(&server, "");
    api.api().act("like", on_note(1, 42));
    drop(api);
    let module = env::module();
    server.configure(&format!("loadmodule {}", module.display()));
    server.restart();
    let found = printed(&run(&server, "", &["check"]));
    assert!(
        found.contains("the module is loaded") && found.contains("created without it"),
        "{found}"
    );
    let countd = Countd::start(&server, "");
    let api = countd.api();
    assert_eq!(
        api.act("like", on_note(1, 42)),
        json!({ "changed": false, "count": 1 })
    );
    assert_eq!(
        api.act("like", on_note(1, 43)),
        json!({ "changed": true, "count": 2 })
    );
    let mut client = server.client();
    client.expect("TYPE cnt:v1:note:1", "string");
    client.expect("TYPE rbm:like:note:1", "set");
    drop(countd);
    // The migration of docs/countd/operations.md.
    client.ok("CINT.ADOPT cnt:v1:note:1 LEN 5 FORCE");
    client.ok("RBM.ADOPT rbm:like:note:1");
    client.ok("HSET countd:layout counters module");
    let countd = Countd::start(&server, "");
    let api = countd.api();
    assert_eq!(
        api.act("like", on_note(1, 42)),
        json!({ "changed": false, "count": 2 })
    );
    assert_eq!(
        api.act("like", on_note(1, 44)),
        json!({ "changed": true, "count": 3 })
    );
    let bare = Server::builder().no_module().start();
    bare.client()
        .ok("HSET countd:layout partitions 1024 counters module");
    fails(&run(&bare, "", &["check"]), "has not loaded the module");
}

/// The names of a stored schema.
fn stored(server: &Server, id: &str) -> String {
    printed(&schema(server, &format!("get {id}")))
        .trim_end()
        .to_owned()
}

fn declaring(names: &str) -> String {
    format!("[schemas.v1]\ncounters = [{names}]\n")
}

#[test]
fn the_default_schema_is_created_at_the_start() {
    for command in ["all", "serve"] {
        let server = Server::start();
        let config = "";
        let countd = Countd::with(&server, &Settings { command, config });
        assert_eq!(stored(&server, "v1"), "v1: read like fav comment repost");
        let api = countd.api();
        api.ok(api.post("/action/like", &on_note(1, 7)));
    }
    // Not if the configuration has entity types or metrics of its own.
    let server = Server::start();
    let config = "[entities]\nnote = \"v1\"\n";
    let command = "all";
    let countd = Countd::with(&server, &Settings { command, config });
    assert!(
        countd.log().contains("no such schema: requests"),
        "{}",
        countd.log()
    );
    fails(&schema(&server, "get v1"), "there is no schema v1");
    // Data with another schema keeps it.
    printed(&schema(&server, "set v1 like extra"));
    let config = "";
    drop(Countd::with(&server, &Settings { command, config }));
    assert_eq!(stored(&server, "v1"), "v1: like extra");
}

#[test]
fn declared_schemas_are_created_and_grow_at_the_start() {
    let server = Server::start();
    let start = |names: &str| {
        let config = &declaring(names);
        let command = "all";
        Countd::with(&server, &Settings { command, config })
    };
    drop(start("\"read\",\"like\""));
    assert_eq!(stored(&server, "v1"), "v1: read like");
    let note = printed(&run(
        &server,
        &declaring("\"read\",\"like\",\"fav\""),
        &["check"],
    ));
    assert!(
        note.contains("schema v1: read like; countd will append when it starts: fav"),
        "{note}"
    );
    drop(start("\"read\",\"like\",\"fav\""));
    assert_eq!(stored(&server, "v1"), "v1: read like fav");
    // A process whose configuration is older works on.
    drop(start("\"read\""));
    assert_eq!(stored(&server, "v1"), "v1: read like fav");
    for names in ["\"like\",\"read\"", "\"read\",\"fav\"", "\"like\""] {
        for command in ["all", "serve", "consume"] {
            fails(
                &run(&server, &declaring(names), &[command]),
                "the configured counters of schema v1 do not match this data, whose schema has: read like fav",
            );
        }
        let check = run(&server, &declaring(names), &["check"]);
        fails(&check, "1 schemas cannot be used");
    }
    assert_eq!(stored(&server, "v1"), "v1: read like fav");
    for (names, problem) in [
        ("", "must have 1 to"),
        ("\"a\",\"b\",\"a\"", "has a twice"),
        ("\"a:b\"", "schemas.v1.counters.0"),
    ] {
        fails(&run(&server, &declaring(names), &["check"]), problem);
    }
    let user = "[schemas.user]\ncounters = [\"a\"]\n";
    fails(&run(&server, user, &["check"]), "schemas.user");
}

#[test]
fn processes_that_start_together_create_one_schema() {
    let server = Server::start();
    let config = &declaring("\"read\",\"like\"");
    thread::scope(|scope| {
        for _ in 0..4 {
            let command = "serve";
            let settings = Settings { command, config };
            let server = &server;
            scope.spawn(move || drop(Countd::with(server, &settings)));
        }
    });
    assert_eq!(stored(&server, "v1"), "v1: read like");
}
