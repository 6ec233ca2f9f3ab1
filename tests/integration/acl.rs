//! Access control: by command name, by key pattern, and by category on servers that let modules have categories.

use crate::keys::KEYS;
use crate::writes::registered;
use countint_tests::{Client, Server, Version, env, reply};
use std::collections::{BTreeMap, BTreeSet};

/// A client of the default user, a client of the user `u` (all commands, no keys), and their server.
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
fn commands_are_granted_and_denied_by_name() {
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

/// Tries every key permission on each key of each command, with all permissions on the other keys.
#[test]
fn each_key_requires_exactly_its_permissions() {
    let (mut admin, mut user, _server) = server_with_user();
    for row in KEYS {
        let required = row.required_permissions();
        for (key, (reads, writes)) in &required {
            for (may_read, may_write) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let mut rules = String::from("ACL SETUSER u resetkeys");
                for other in required.keys().filter(|other| other != &key) {
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
fn denied_call_changes_nothing() {
    let (mut admin, mut user, _server) = server_with_user();
    for line in ["CINT.SET c LEN 3 0 1", "RBM.ADD r 1", "RBM.ADD d 1 2"] {
        admin.ok(line);
    }
    // Everything but `%W~` on the command's keys.
    admin.ok("ACL SETUSER u %R~* %W~other*");
    let before = admin.digest();
    for row in KEYS.iter().filter(|row| row.writes()) {
        assert!(is_denied(&mut user, row.line), "{}", row.line);
        let script = format!("EVAL \"return redis.call(unpack(ARGV))\" 0 {}", row.line);
        let reply = user.run(&script);
        // The error differs between servers.
        assert!(reply.starts_with("(error) "), "{script}: {reply}");
        let about_keys = reply.contains("keys mentioned") || reply.contains("permission");
        assert!(about_keys, "{script}: {reply}");
    }
    assert_eq!(admin.digest(), before);
    assert!(!is_denied(&mut user, "RBM.OP OR other r d"));
    assert!(is_denied(&mut user, "RBM.OP OR r other"));
}

/// The user of the example in the docs.
const MARKS: &str = "ACL SETUSER marks on >secret ~rbm:* ~cnt:* %W~log:* +rbm.mark +rbm.unmark";

/// A server, a client of the default user, and one of the user [`MARKS`].
fn server_with_marks() -> (Client, Client, Server) {
    let server = Server::start();
    let (mut admin, mut marks) = (server.client(), server.client());
    admin.ok(MARKS);
    marks.ok("AUTH marks secret");
    (admin, marks, server)
}

#[test]
fn mark_needs_no_xadd_permission() {
    let page = std::fs::read_to_string(env::workspace().join("docs/operations.md"));
    assert!(page.expect("the page").contains(&format!("\n{MARKS}\n")));
    let (mut admin, mut marks, _server) = server_with_marks();
    // Without +xadd, and with +@all -xadd.
    for (i, rule) in ["-@all +rbm.mark +rbm.unmark", "+@all -xadd"]
        .into_iter()
        .enumerate()
    {
        admin.ok(&format!("ACL SETUSER marks {rule}"));
        let entries = i * 3;
        for (line, changed) in [
            ("RBM.MARK rbm:1 7 EVENT log:1 SEQ user 7", "1) (integer) 1"),
            ("RBM.MARK rbm:1 7 EVENT log:1 SEQ user 7", "1) (integer) 0"),
            (
                "RBM.UNMARK rbm:1 7 EVENT log:1 SEQ user 7",
                "1) (integer) 1",
            ),
            (
                "RBM.MARK rbm:1 7 COUNT cnt:1 0 EVENT log:1 SEQ user 7",
                "1) (integer) 1",
            ),
        ] {
            let reply = marks.run(line);
            assert!(reply.starts_with(changed), "{rule}: {line}: {reply}");
            assert_eq!(
                admin.run(&format!("ACL DRYRUN marks {line}")),
                "OK",
                "{line}"
            );
        }
        admin.expect("XLEN log:1", &format!("(integer) {}", entries + 3));
        admin.expect("CINT.GET cnt:1 0", "(integer) 1");
        assert!(is_denied(&mut marks, "XADD log:1 * user 7"), "{rule}");
        admin.ok("DEL rbm:1 cnt:1");
    }
    // `%W~` does not permit reading.
    admin.ok("ACL SETUSER marks +@all");
    assert!(is_denied(&mut marks, "XRANGE log:1 - +"));
    // The same for counters and rows, without permission for their commands.
    admin.ok("ACL SETUSER marks -@all +rbm.mark");
    for (line, reported) in [
        ("RBM.MARK rbm:1 7 COUNT cnt:1 0", "CINT.GET cnt:1 0"),
        ("RBM.MARK rbm:2 7 COUNT cnt:t ROW 9 0", "CTAB.GET cnt:t 9 0"),
    ] {
        assert_eq!(marks.run(line), "1) (integer) 1\n2) (integer) 1", "{line}");
        admin.expect(reported, "(integer) 1");
    }
    for line in [
        "CINT.INCRBY cnt:1 0 1",
        "CTAB.INCRBY cnt:t 9 0 1",
        "RBM.ADD rbm:1 8",
    ] {
        assert!(is_denied(&mut marks, line), "{line}");
    }
}

#[test]
fn mark_needs_write_permission_on_the_stream() {
    let (mut admin, mut marks, _server) = server_with_marks();
    admin.ok("ACL SETUSER marks +rbm.mmark +rbm.munmark");
    admin.ok("XADD log:1 0-1 user 1");
    admin.ok("XADD other 0-1 user 1");
    admin.ok("RBM.ADD rbm:1 1");
    admin.ok("CINT.SET cnt:1 LEN 3 0 1");
    let before = admin.digest();
    for keys in [
        "",
        "~rbm:* ~cnt:*",
        "~rbm:* ~cnt:* %R~log:*",
        "~rbm:* %R~cnt:* %W~log:*",
    ] {
        admin.ok(&format!("ACL SETUSER marks resetkeys {keys}"));
        for member in [1, 2] {
            for (command, more) in [
                ("RBM.MARK", ""),
                ("RBM.UNMARK", ""),
                ("RBM.MMARK", "5"),
                ("RBM.MUNMARK", "5"),
            ] {
                let members = format!("{member} {more}");
                let line = format!("{command} rbm:1 {members} COUNT cnt:1 0 EVENT log:1 user 1");
                assert!(is_denied(&mut marks, &line), "{keys}: {line}");
                let dry = admin.run(&format!("ACL DRYRUN marks {line}"));
                assert!(dry != "OK", "{keys}: {line}: {dry}");
            }
        }
    }
    admin.ok("ACL SETUSER marks resetkeys ~rbm:* ~cnt:* %W~log:*");
    assert!(is_denied(&mut marks, "RBM.MARK rbm:1 1 EVENT other user 1"));
    assert!(is_denied(&mut marks, "RBM.MARK rbm:1 9 EVENT other user 1"));
    assert!(is_denied(
        &mut marks,
        "RBM.MMARK rbm:1 8 9 EVENT other user 1"
    ));
    assert_eq!(admin.digest(), before);
    let line = "RBM.MARK rbm:1 9 COUNT cnt:1 0 EVENT log:1 user 1";
    assert_eq!(marks.run(line), "1) (integer) 1\n2) (integer) 2");
    let line = "RBM.MMARK rbm:1 9 10 11 COUNT cnt:1 0 EVENT log:1 user 1";
    assert!(marks.run(line).ends_with("\n2) (integer) 4"));
    admin.expect("XLEN log:1", "(integer) 3");
}

#[test]
fn adopt_needs_no_permission_for_commands_of_the_old_type() {
    let (mut admin, mut user, _server) = server_with_user();
    for line in [
        "BITFIELD c1 SET u40 #0 7",
        "HSET c2 likes 7",
        "SADD r 7 8",
        "ACL SETUSER u ~* -@all +cint.adopt +rbm.adopt",
    ] {
        admin.ok(line);
    }
    for line in ["GET c1", "HGET c2 likes", "SMEMBERS r"] {
        assert!(is_denied(&mut user, line), "{line}");
    }
    user.expect("CINT.ADOPT c1 LEN 3", "OK");
    user.expect("CINT.ADOPT c2 FIELDS likes", "OK");
    user.ok("RBM.ADOPT r");
    for key in ["c1", "c2"] {
        admin.expect(&format!("CINT.GET {key} 0"), "(integer) 7");
    }
    admin.expect("RBM.CARD r", "(integer) 2");
}

/// Calls with too few arguments to determine their keys.
#[test]
fn malformed_calls_get_an_error_for_every_user() {
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

/// Modules can add ACL categories since Redis 7.4.
fn has_categories(version: Version) -> bool {
    version.valkey || version.number >= (7, 4)
}

/// Whether `ACL CAT name` lists commands of modules. (`COMMAND LIST` does on every server.)
fn acl_cat_is_complete(version: Version) -> bool {
    version.number >= if version.valkey { (8, 1) } else { (8, 0) }
}

fn words(client: &mut Client, line: &str) -> BTreeSet<String> {
    let words = reply::array(client.ok(line));
    words.into_iter().map(reply::text).collect()
}

/// The module's commands by category; empty on servers without categories for modules.
fn expected_categories(admin: &mut Client, version: Version) -> BTreeMap<String, BTreeSet<String>> {
    let (writes, reads) = (registered(admin, "write"), registered(admin, "readonly"));
    let all = &writes | &reads;
    let prefixed = |prefix: &str| {
        let names = all.iter().filter(|name| name.starts_with(prefix));
        names.cloned().collect::<BTreeSet<_>>()
    };
    let fast = FAST.map(str::to_owned).into();
    let categories = match has_categories(version) {
        false => Vec::new(),
        true => vec![
            ("slow", &all - &fast),
            ("fast", fast),
            ("countint", &prefixed("cint.") | &prefixed("ctab.")),
            ("rbm", prefixed("rbm.")),
            ("read", reads),
            ("write", writes),
        ],
    };
    let named = categories
        .into_iter()
        .map(|(name, commands)| (name.to_owned(), commands));
    named.collect()
}

const FAST: [&str; 20] = [
    "cint.get",
    "cint.getset",
    "cint.incrby",
    "cint.len",
    "ctab.card",
    "ctab.get",
    "ctab.getset",
    "ctab.incrby",
    "ctab.init",
    "rbm.add",
    "rbm.card",
    "rbm.contains",
    "rbm.info",
    "rbm.mark",
    "rbm.mcard",
    "rbm.mcontains",
    "rbm.mmark",
    "rbm.munmark",
    "rbm.rem",
    "rbm.unmark",
];

/// On servers without categories for modules, `-@write` does not deny the module's writes, as the docs warn.
#[test]
fn categories_grant_and_deny_exactly_their_commands() {
    let (mut admin, mut user, server) = server_with_user();
    admin.ok("ACL SETUSER u ~*");
    let version = server.version();
    let mut expected = expected_categories(&mut admin, version);
    let all = &registered(&mut admin, "write") | &registered(&mut admin, "readonly");
    for name in words(&mut admin, "ACL CAT") {
        let commands = expected.remove(&name).unwrap_or_default();
        let listed = words(&mut admin, &format!("COMMAND LIST FILTERBY ACLCAT {name}"));
        assert_eq!(&listed & &all, commands, "COMMAND LIST of @{name}");
        let reported = words(&mut admin, &format!("ACL CAT {name}"));
        let complete = acl_cat_is_complete(version);
        let tells = if complete {
            commands.clone()
        } else {
            BTreeSet::new()
        };
        assert_eq!(&reported & &all, tells, "ACL CAT {name}");
        check_granted(&mut admin, &mut user, &name, &commands);
    }
    assert!(
        expected.is_empty(),
        "no such categories: {:?}",
        expected.keys()
    );
}

/// Checks that the category grants and denies exactly these commands of the module.
fn check_granted(admin: &mut Client, user: &mut Client, name: &str, commands: &BTreeSet<String>) {
    for (rule, allowed) in [
        (format!("-@all +@{name}"), true),
        (format!("+@all -@{name}"), false),
    ] {
        admin.ok(&format!("ACL SETUSER u {rule}"));
        for row in KEYS {
            let expected = commands.contains(&row.command()) == allowed;
            assert_eq!(!is_denied(user, row.line), expected, "{rule}: {}", row.line);
        }
    }
}
