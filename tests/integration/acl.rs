//! Access control: by command name, by key pattern, and by category on servers that let modules have categories.

use crate::keys::KEYS;
use crate::writes::registered;
use countint_tests::{Client, Server, Version, reply};
use std::collections::BTreeSet;

/// A server with a user `u` that may run everything on no key, a client of the default user, and one of `u`.
fn server_with_user() -> (Client, Client, Server) {
    let server = Server::start();
    let (mut admin, mut user) = (server.client(), server.client());
    admin.ok("ACL SETUSER u on >secret +@all");
    user.ok("AUTH u secret");
    (admin, user, server)
}

fn is_denied(user: &mut Client, line: &str) -> bool {
    user.run(line).starts_with("(error) NOPERM ")
}

#[test]
fn by_name() {
    let (mut admin, mut user, _server) = server_with_user();
    let all = &registered(&mut admin, "write") | &registered(&mut admin, "readonly");
    for command in &all {
        admin.ok(&format!("ACL SETUSER u ~* -@all +{command}"));
        for row in KEYS {
            let denied = is_denied(&mut user, row.line);
            assert_eq!(
                denied,
                row.command() != *command,
                "+{command}: {}",
                row.line
            );
        }
        admin.ok(&format!("ACL SETUSER u +@all -{command}"));
        for row in KEYS {
            let denied = is_denied(&mut user, row.line);
            assert_eq!(
                denied,
                row.command() == *command,
                "-{command}: {}",
                row.line
            );
        }
    }
}

/// Each key of each command with every permission there is, while all is allowed on its other keys.
#[test]
fn by_key_permissions() {
    let (mut admin, mut user, _server) = server_with_user();
    for row in KEYS {
        let needs = row.needs();
        for (key, (reads, writes)) in &needs {
            for (may_read, may_write) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let mut rules = String::from("ACL SETUSER u resetkeys");
                for other in needs.keys().filter(|other| other != &key) {
                    rules += &format!(" ~{other}");
                }
                rules += match (may_read, may_write) {
                    (false, false) => "",
                    (true, false) => " %R~",
                    (false, true) => " %W~",
                    (true, true) => " %RW~",
                };
                if may_read || may_write {
                    rules += key;
                }
                admin.ok(&rules);
                let allowed = (may_read || may_write) && may_read >= *reads && may_write >= *writes;
                let context = format!("{}: {rules}", row.line);
                assert_eq!(is_denied(&mut user, row.line), !allowed, "{context}");
                let dry = admin.run(&format!("ACL DRYRUN u {}", row.line));
                assert_eq!(dry == "OK", allowed, "{context}: {dry}");
            }
        }
    }
}

#[test]
fn a_refused_call_changes_nothing() {
    let (mut admin, mut user, _server) = server_with_user();
    for line in ["CINT.SET c LEN 3 0 1", "RBM.ADD r 1", "RBM.ADD d 1 2"] {
        admin.ok(line);
    }
    // Everything but writing to the keys themselves.
    admin.ok("ACL SETUSER u %R~* %W~other*");
    let before = admin.digest();
    for row in KEYS.iter().filter(|row| row.writes()) {
        assert!(is_denied(&mut user, row.line), "{}", row.line);
        let script = format!("EVAL \"return redis.call(unpack(ARGV))\" 0 {}", row.line);
        let answer = user.run(&script);
        // Which error, and in which words, differs between servers.
        assert!(answer.starts_with("(error) "), "{script}: {answer}");
        let about_keys = answer.contains("keys mentioned") || answer.contains("permission");
        assert!(about_keys, "{script}: {answer}");
    }
    assert_eq!(admin.digest(), before);
    assert!(!is_denied(&mut user, "RBM.OP OR other r d"));
    assert!(is_denied(&mut user, "RBM.OP OR r other"));
}

/// Too few arguments to say what the keys are: an error, whoever asks.
#[test]
fn malformed_calls_are_refused_in_order() {
    let (mut admin, mut user, mut server) = server_with_user();
    let commands: BTreeSet<String> = KEYS.iter().map(|row| row.command()).collect();
    for command in &commands {
        for extra in ["", " a", " and d", " LEN 1"] {
            let line = format!("{command}{extra}");
            user.run(&line);
            admin.run(&format!("ACL DRYRUN u {line}"));
        }
        let short = user.run(command);
        assert!(
            short.starts_with("(error) ERR wrong number of arguments"),
            "{command}: {short}"
        );
    }
    server.assert_alive();
}

/// The commands of a category.
fn category(client: &mut Client, name: &str) -> BTreeSet<String> {
    let commands = reply::array(client.ok(&format!("ACL CAT {name}")));
    commands.into_iter().map(reply::text).collect()
}

fn has_categories(version: Version) -> bool {
    version.valkey || version.number >= (7, 4)
}

#[test]
fn by_category() {
    let (mut admin, mut user, server) = server_with_user();
    let writes = registered(&mut admin, "write");
    let reads = registered(&mut admin, "readonly");
    let all: BTreeSet<String> = &writes | &reads;
    admin.ok("ACL SETUSER u ~*");
    if !has_categories(server.version()) {
        return check_absent(&mut admin, &mut user, &all);
    }
    let fast = [
        "cint.get",
        "cint.getset",
        "cint.incrby",
        "cint.len",
        "rbm.add",
        "rbm.card",
        "rbm.contains",
        "rbm.mcontains",
        "rbm.rem",
    ];
    let fast = BTreeSet::from(fast.map(str::to_owned));
    let prefixed = |prefix: &str| {
        let names = all.iter().filter(|name| name.starts_with(prefix));
        names.cloned().collect::<BTreeSet<_>>()
    };
    assert_eq!(category(&mut admin, "countint"), prefixed("cint."));
    assert_eq!(category(&mut admin, "rbm"), prefixed("rbm."));
    for name in reply::array(admin.ok("ACL CAT"))
        .into_iter()
        .map(reply::text)
    {
        let expected = match name.as_str() {
            "read" => reads.clone(),
            "write" => writes.clone(),
            "fast" => fast.clone(),
            "slow" => &all - &fast,
            "countint" => prefixed("cint."),
            "rbm" => prefixed("rbm."),
            _ => BTreeSet::new(),
        };
        assert_eq!(&category(&mut admin, &name) & &all, expected, "@{name}");
        let listed = reply::array(admin.ok(&format!("COMMAND LIST FILTERBY ACLCAT {name}")));
        let listed: BTreeSet<String> = listed.into_iter().map(reply::text).collect();
        assert_eq!(&listed & &all, expected, "COMMAND LIST of @{name}");
        check_granted(&mut admin, &mut user, &name, &expected);
    }
}

fn check_granted(admin: &mut Client, user: &mut Client, name: &str, members: &BTreeSet<String>) {
    for (rule, allowed) in [
        (format!("-@all +@{name}"), true),
        (format!("+@all -@{name}"), false),
    ] {
        admin.ok(&format!("ACL SETUSER u {rule}"));
        for row in KEYS {
            let expected = members.contains(&row.command()) == allowed;
            assert_eq!(!is_denied(user, row.line), expected, "{rule}: {}", row.line);
        }
    }
}

/// Redis 7.0: categories neither grant nor take what a module adds; only `@all` does.
fn check_absent(admin: &mut Client, user: &mut Client, all: &BTreeSet<String>) {
    for name in ["countint", "rbm"] {
        let answer = admin.run(&format!("ACL CAT {name}"));
        assert_eq!(answer, format!("(error) ERR Unknown category '{name}'"));
    }
    for name in reply::array(admin.ok("ACL CAT"))
        .into_iter()
        .map(reply::text)
    {
        assert_eq!(&category(admin, &name) & all, BTreeSet::new(), "@{name}");
        check_granted_without_categories(admin, user, &name);
    }
}

fn check_granted_without_categories(admin: &mut Client, user: &mut Client, name: &str) {
    for (rule, denied) in [
        (format!("-@all +@{name}"), true),
        (format!("+@all -@{name}"), false),
    ] {
        admin.ok(&format!("ACL SETUSER u {rule}"));
        for row in KEYS {
            assert_eq!(is_denied(user, row.line), denied, "{rule}: {}", row.line);
        }
    }
}
