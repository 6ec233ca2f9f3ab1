//! The settings `countint.*`, the module's arguments, and the repository's redis.conf.

use countint_tests::env::{self, TempDir};
use countint_tests::{Client, Server, line};
use std::fs;

fn default_len(client: &mut Client) -> String {
    let all = client.config("countint.*");
    assert_eq!(all.len(), 1, "the settings of the module: {all:?}");
    all["countint.default-len"].clone()
}

#[test]
fn config_get_and_set_work() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(default_len(&mut client), "5");
    for good in ["0", "1", "65535", "7"] {
        client.expect(&format!("CONFIG SET countint.default-len {good}"), "OK");
        assert_eq!(default_len(&mut client), good);
    }
    for bad in [
        "-1",
        "65536",
        "9223372036854775807",
        "9223372036854775808",
        "abc",
        "\"\"",
        "1.5",
        "\" 1\"",
    ] {
        let printed = client.run(&format!("CONFIG SET countint.default-len {bad}"));
        assert!(
            printed.starts_with("(error) ERR CONFIG SET failed"),
            "{bad}: {printed}"
        );
        assert_eq!(default_len(&mut client), "7", "after {bad}");
    }
    // CONFIG SET of several settings is atomic.
    let printed = client.run("CONFIG SET countint.default-len 8 maxmemory nonsense");
    assert!(printed.starts_with("(error)"), "{printed}");
    assert_eq!(default_len(&mut client), "7");
    client.expect("CONFIG SET COUNTINT.DEFAULT-LEN 9", "OK");
    assert_eq!(default_len(&mut client), "9");
}

#[test]
fn config_rewrite_keeps_the_setting() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CONFIG SET countint.default-len 12");
    client.expect("CONFIG REWRITE", "OK");
    let file = fs::read_to_string(server.dir().join("test.conf")).expect("the file is there");
    assert!(
        file.lines().any(|line| line == "countint.default-len 12"),
        "{file}"
    );
}

#[test]
fn configuration_file_overrides_module_arguments() {
    let none: &[&str] = &[];
    let cases = [
        ("", none, "5"),
        ("default-len 7", none, "7"),
        ("default-len 0", none, "0"),
        ("DEFAULT-LEN 65535", none, "65535"),
        ("", &["countint.default-len 9"], "9"),
        // The configuration file overrides the argument.
        ("default-len 7", &["countint.default-len 9"], "9"),
        ("default-len 7", &["countint.default-len 5"], "5"),
    ];
    for (module_args, lines, expected) in cases {
        let builder = Server::builder().module_args(module_args);
        let builder = lines
            .iter()
            .fold(builder, |builder, line| builder.config(line));
        let server = builder.start();
        let len = default_len(&mut server.client());
        assert_eq!(len, expected, "loadmodule ... {module_args}, {lines:?}");
    }
}

#[test]
fn invalid_module_arguments_prevent_the_start() {
    let bad = [
        "default-len",
        "default-len abc",
        "default-len -1",
        "default-len 65536",
        "default-len 07",
        "default-len +7",
        "default-len 1.0",
        "nonsense",
        "nonsense 7",
        "7",
        "default-len 7 8",
        "default-len 7 nonsense 8",
    ];
    for module_args in bad {
        let started = Server::builder().module_args(module_args).try_start();
        let log = started
            .err()
            .unwrap_or_else(|| panic!("loadmodule ... {module_args} was accepted"));
        assert!(
            log.contains("default-len"),
            "the log lists the allowed values: {log}"
        );
    }
    for line in [
        "countint.default-len 65536",
        "countint.default-len abc",
        "countint.nonsense 1",
    ] {
        let started = Server::builder().config(line).try_start();
        assert!(started.is_err(), "the line {line} was accepted");
    }
}

#[test]
fn module_load_and_unload_work_at_run_time() {
    let mut server = Server::builder().no_module().start();
    let mut client = server.client();
    let path = line::quote(env::module().display().to_string().as_bytes());
    // No unknown setting: Redis 7.0 refuses it after the module is loaded, and then cannot unload the module.
    for bad in [
        "LOAD {path} default-len abc",
        "LOAD {path} nonsense",
        "LOADEX {path} CONFIG countint.default-len 65536",
        "LOADEX {path} CONFIG countint.default-len abc",
        "LOADEX {path} ARGS default-len -1",
    ] {
        let printed = client.run(&format!("MODULE {}", bad.replace("{path}", &path)));
        assert!(printed.starts_with("(error)"), "{bad}: {printed}");
        let modules = client.run("MODULE LIST");
        assert!(!modules.contains("countint"), "{bad}: {modules}");
        assert!(
            client
                .run("CINT.LEN k")
                .starts_with("(error) ERR unknown command")
        );
    }
    // Failed attempts leave nothing behind.
    client.ok(&format!(
        "MODULE LOADEX {path} CONFIG countint.default-len 3 ARGS default-len 4"
    ));
    client.expect("CINT.INCRBY k 0 1", "(integer) 1");
    client.expect("CINT.LEN k", "(integer) 3");
    assert_eq!(default_len(&mut client), "3");
    // A module with a data type cannot be unloaded.
    assert!(
        client
            .run("MODULE UNLOAD countint")
            .starts_with("(error) ERR Error unloading module")
    );
    client.expect("CINT.LEN k", "(integer) 3");
    server.assert_alive();

    let other = Server::builder().no_module().start();
    let mut client = other.client();
    client.ok(&format!("MODULE LOAD {path} default-len 6"));
    assert_eq!(default_len(&mut client), "6");
}

#[test]
fn module_reports_its_version_and_commands() {
    let server = Server::start();
    let mut client = server.client();
    let modules = client.run("MODULE LIST");
    // The tests have the workspace's version.
    let parts = env!("CARGO_PKG_VERSION").split('.');
    let version = parts.fold(0, |version, part| {
        version * 100 + part.parse::<u32>().expect("a version is numbers")
    });
    for part in [
        "\"countint\"",
        &format!("\"ver\"\n   4) (integer) {version}"),
    ] {
        assert!(modules.contains(part), "{part}: {modules}");
    }
    let options = client.run("INFO modules");
    for option in ["handle-io-errors", "no-implicit-signal-modified"] {
        assert!(options.contains(option), "{option}: {options}");
    }
    for section in ["countint", "everything", "modules"] {
        let fields = client.info(section);
        assert!(
            fields.contains_key("countint_cint_objects"),
            "INFO {section}: {fields:?}"
        );
    }
    // Only the requested section.
    assert!(!client.info("memory").contains_key("countint_cint_objects"));
}

/// The repository's redis.conf, loading the module under test.
fn redis_conf() -> (TempDir, String) {
    let text =
        fs::read_to_string(env::workspace().join("redis.conf")).expect("redis.conf is there");
    let built = "./target/release/libcountint.so";
    assert!(
        text.contains(&format!("\nloadmodule {built}\n")),
        "redis.conf loads the module"
    );
    let module = env::module().display().to_string();
    let dir = TempDir::new();
    fs::write(dir.path().join("redis.conf"), text.replace(built, &module)).expect("it is writable");
    (dir, text)
}

#[test]
fn redis_conf_has_the_recommended_settings() {
    let (dir, _) = redis_conf();
    let mut server = Server::builder()
        .include(&dir.path().join("redis.conf"))
        .start();
    let mut client = server.client();
    let settings = [
        ("save", "900 1 300 10"),
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("auto-aof-rewrite-percentage", "100"),
        ("auto-aof-rewrite-min-size", "536870912"),
        ("lazyfree-lazy-eviction", "yes"),
        ("maxmemory-policy", "noeviction"),
        ("bind", "127.0.0.1 -::1"),
        ("protected-mode", "yes"),
    ];
    for (name, value) in settings {
        assert_eq!(client.config(name)[name], value, "{name}");
    }
    assert!(client.run("MODULE LIST").contains("\"countint\""));
    client.expect("CINT.INCRBY k 0 1", "(integer) 1");
    client.expect("RBM.ADD r 1 2", "(integer) 2");
    // The server shuts down cleanly and reloads its data.
    server.signal("TERM");
    assert!(server.wait_for_end().success(), "a clean exit");
    server.start_again();
    let mut client = server.client();
    client.expect("CINT.GET k 0", "(integer) 1");
    client.expect("RBM.CARD r", "(integer) 2");
}

#[test]
fn redis_conf_explains_each_line() {
    let (_dir, text) = redis_conf();
    for block in text.split("\n\n") {
        let (comments, settings): (Vec<_>, Vec<_>) = block
            .lines()
            .filter(|line| !line.is_empty())
            .partition(|line| line.starts_with('#'));
        let names: Vec<&str> = settings
            .iter()
            .filter_map(|line| line.split(' ').next())
            .collect();
        let explained = !comments.is_empty() || names.iter().all(|name| *name == "port");
        assert!(explained, "redis.conf does not explain: {settings:?}");
    }
}
