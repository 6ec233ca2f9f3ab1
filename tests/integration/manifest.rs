//! Every registered command has a scenario, a page, a line in the list of commands, key specifications and documentation
//! in the server. `CONTRIBUTING.md` lists what else a command needs.

use crate::docs::page;
use crate::keys::KEYS;
use countint_tests::{Client, Scenario, Server, Value, args, env, reply};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Commands without keys, with the reason.
const NO_KEYS: [(&str, &str); 0] = [];

/// The flags of every command, except `module`.
const FLAGS: [(&str, &str); 57] = [
    ("cint.init", "write denyoom"),
    ("cint.get", "readonly fast"),
    ("cint.mget", "readonly"),
    ("cint.incrby", "write denyoom fast"),
    ("cint.batchincr", "write denyoom"),
    ("cint.set", "write denyoom"),
    ("cint.getset", "write denyoom fast"),
    ("cint.len", "readonly fast"),
    ("cint.dump", "readonly"),
    ("cint.mdump", "readonly"),
    ("cint.mread", "readonly"),
    ("cint.resize", "write denyoom"),
    ("cint.export", "readonly"),
    ("cint.import", "write denyoom"),
    ("cint.adopt", "write denyoom"),
    ("cint.apply", "write denyoom"),
    ("ctab.init", "write denyoom fast"),
    ("ctab.get", "readonly fast"),
    ("ctab.mget", "readonly"),
    ("ctab.mread", "readonly"),
    ("ctab.page", "readonly"),
    ("ctab.incrby", "write denyoom fast"),
    ("ctab.batchincr", "write denyoom"),
    ("ctab.mincrby", "write denyoom"),
    ("ctab.set", "write denyoom"),
    ("ctab.getset", "write denyoom fast"),
    ("ctab.mapply", "write denyoom"),
    ("ctab.del", "write"),
    ("ctab.card", "readonly fast"),
    ("ctab.scan", "readonly"),
    ("ctab.resize", "write denyoom"),
    ("ctab.export", "readonly"),
    ("ctab.import", "write denyoom"),
    ("ctab.info", "readonly"),
    ("rbm.add", "write denyoom fast"),
    ("rbm.rem", "write fast"),
    ("rbm.contains", "readonly fast"),
    ("rbm.mcontains", "readonly fast"),
    ("rbm.page", "readonly"),
    ("rbm.card", "readonly fast"),
    ("rbm.mcard", "readonly fast"),
    ("rbm.min", "readonly"),
    ("rbm.max", "readonly"),
    ("rbm.rank", "readonly"),
    ("rbm.select", "readonly"),
    ("rbm.count", "readonly"),
    ("rbm.scan", "readonly"),
    ("rbm.op", "write denyoom"),
    ("rbm.opcard", "readonly"),
    ("rbm.export", "readonly"),
    ("rbm.import", "write denyoom"),
    ("rbm.info", "readonly fast"),
    ("rbm.adopt", "write denyoom"),
    ("rbm.mark", "write denyoom fast movablekeys"),
    ("rbm.unmark", "write fast movablekeys"),
    ("rbm.mmark", "write denyoom fast movablekeys"),
    ("rbm.munmark", "write fast movablekeys"),
];

/// The registered commands in lower case.
fn registered(client: &mut Client) -> BTreeSet<String> {
    let names = reply::array(client.ok("COMMAND LIST FILTERBY MODULE countint"));
    let names: BTreeSet<String> = names.into_iter().map(reply::text).collect();
    assert!(!names.is_empty(), "the module registers commands");
    names
}

/// A map, which RESP2 sends as an array.
fn map(value: Value) -> BTreeMap<String, Value> {
    let mut items = reply::array(value).into_iter();
    std::iter::from_fn(|| Some((reply::text(items.next()?), items.next()?))).collect()
}

fn texts(value: &Value) -> BTreeSet<String> {
    reply::array(value.clone())
        .into_iter()
        .map(reply::text)
        .collect()
}

fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_command_has_scenarios() {
    let server = Server::start();
    let played: BTreeSet<String> = Scenario::all()
        .iter()
        .flat_map(|scenario| &scenario.steps)
        .map(|step| String::from_utf8_lossy(&step.args[0]).to_ascii_lowercase())
        .collect();
    let mut missing = registered(&mut server.client());
    missing.retain(|name| !played.contains(name));
    assert!(missing.is_empty(), "no scenario has {missing:?}");
    // Each needs a success and an error.
    let mut outcomes = BTreeMap::<String, BTreeSet<bool>>::new();
    for step in Scenario::all().iter().flat_map(|scenario| &scenario.steps) {
        let name = String::from_utf8_lossy(&step.args[0]).to_ascii_lowercase();
        outcomes
            .entry(name)
            .or_default()
            .insert(step.reply.starts_with("(error)"));
    }
    for name in registered(&mut server.client()) {
        assert_eq!(
            outcomes[&name].len(),
            2,
            "{name} needs a scenario of success and one of failure"
        );
    }
}

#[test]
fn every_command_has_a_page_with_an_example() {
    let server = Server::start();
    let failed: Vec<String> = registered(&mut server.client())
        .iter()
        .filter_map(|name| page(name).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_command_is_in_the_list() {
    let server = Server::start();
    let path = env::workspace().join("docs/commands/README.md");
    let list = fs::read_to_string(path).expect("the list of commands can be read");
    let listed: BTreeSet<String> = list
        .lines()
        .filter_map(|line| line.strip_prefix("| [`")?.split_once("`]("))
        .map(|(name, rest)| {
            let name = name.to_ascii_lowercase();
            let page = format!("{name}.md) `");
            assert!(rest.starts_with(&page), "the list links {name} to its page");
            name
        })
        .collect();
    assert_eq!(
        listed,
        registered(&mut server.client()),
        "docs/commands/README.md"
    );
}

#[test]
fn every_command_has_its_flags() {
    let server = Server::start();
    let mut client = server.client();
    let expected: BTreeMap<&str, &str> = FLAGS.into();
    assert_eq!(
        names(expected.keys().copied()),
        registered(&mut client),
        "the table of flags"
    );
    for (name, flags) in expected {
        let info = reply::array(client.call(&args!["COMMAND", "INFO", name]));
        let info = reply::array(info.into_iter().next().expect("one command was asked for"));
        let mut expected = names(flags.split(' '));
        expected.insert("module".to_owned());
        assert_eq!(texts(&info[2]), expected, "the flags of {name}");
        // The page must agree.
        let text = page(name).expect("every command has a page");
        let line = text.lines().find(|line| line.starts_with("| Flags |"));
        let line = line.unwrap_or_else(|| panic!("the page of {name} does not list its flags"));
        let reported = line
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|flag| flag.replace('-', ""));
        assert_eq!(
            reported.collect::<BTreeSet<_>>(),
            names(flags.split(' ')),
            "the flags on the page of {name}"
        );
        check_key_specifications(name, &texts(&info[2]), &info[8]);
    }
}

fn check_key_specifications(name: &str, flags: &BTreeSet<String>, specifications: &Value) {
    let specifications = reply::array(specifications.clone());
    let exempt = NO_KEYS.iter().any(|(other, _)| *other == name);
    assert_eq!(
        specifications.is_empty(),
        exempt,
        "the key specifications of {name}"
    );
    let mut writes = false;
    for specification in specifications {
        let specification = map(specification);
        let key_flags = texts(&specification["flags"]);
        assert_eq!(
            key_flags.contains("incomplete"),
            flags.contains("movablekeys"),
            "clients of {name} must ask for its keys only where they move"
        );
        let access: Vec<_> = ["RO", "RW", "OW", "RM"]
            .iter()
            .filter(|flag| key_flags.contains(**flag))
            .collect();
        assert_eq!(access.len(), 1, "{name}: {key_flags:?}");
        writes |= access[0] != &"RO";
        for part in ["begin_search", "find_keys"] {
            let kind = reply::text(map(specification[part].clone())["type"].clone());
            assert_ne!(kind, "unknown", "{part} of {name}");
        }
    }
    assert_eq!(writes, flags.contains("write"), "{name} writes a key");
}

#[test]
fn every_command_is_documented_in_the_server() {
    let server = Server::start();
    let mut client = server.client();
    let mut failed: Vec<String> = Vec::new();
    for name in registered(&mut client) {
        let docs = map(client.call(&args!["COMMAND", "DOCS", name]));
        let docs = map(docs[&name].clone());
        for field in ["summary", "since", "group", "complexity"] {
            let text = reply::text(docs[field].clone());
            assert!(!text.is_empty(), "{field} of {name}");
        }
        assert_eq!(reply::text(docs["group"].clone()), "module", "{name}");
        assert_eq!(reply::text(docs["module"].clone()), "countint", "{name}");
        let summary = reply::text(docs["summary"].clone());
        assert!(
            !summary.ends_with('.'),
            "Redis's summaries end without a full stop: {name}"
        );
        let complexity = reply::text(docs["complexity"].clone());
        assert!(
            complexity.starts_with("O("),
            "complexity of {name}: {complexity}"
        );
        let syntax = format!(
            "{}{}",
            name.to_ascii_uppercase(),
            arguments(&docs["arguments"])
        );
        let page = page(&name).expect("every command has a page");
        let mut lines = alternatives(&syntax);
        lines.retain(|line| !page.lines().any(|other| other == line));
        failed.extend(lines);
    }
    assert!(
        failed.is_empty(),
        "COMMAND DOCS has syntax that no page has: {failed:#?}"
    );
}

/// ` key idx delta [LEN n] [OVERFLOW SAT|FAIL]`, from the arguments of `COMMAND DOCS`.
fn arguments(list: &Value) -> String {
    let list = reply::array(list.clone());
    list.into_iter()
        .map(|argument| format!(" {}", argument_text(argument)))
        .collect()
}

fn argument_text(argument: Value) -> String {
    let mut argument = map(argument);
    let flags = argument.get("flags").map(texts).unwrap_or_default();
    let token = argument.remove("token").map(reply::text);
    let inner = argument.remove("arguments");
    let kind = reply::text(argument["type"].clone());
    let value = match (kind.as_str(), inner) {
        ("pure-token", _) => String::new(),
        ("oneof", Some(list)) => {
            let choices = reply::array(list).into_iter().map(argument_text);
            choices.collect::<Vec<_>>().join("|")
        }
        ("block", Some(list)) => arguments(&list).trim_start().to_owned(),
        // The pages call the number after a keyword n.
        ("integer", None) if token.is_some() => "n".to_owned(),
        _ => reply::text(argument["name"].clone()),
    };
    let value = match flags.contains("multiple") {
        true => format!("{value} [{value} ...]"),
        false => value,
    };
    let words: Vec<String> = token
        .into_iter()
        .chain(Some(value))
        .filter(|word| !word.is_empty())
        .collect();
    let text = words.join(" ");
    match flags.contains("optional") {
        true => format!("[{text}]"),
        false => text,
    }
}

/// The syntax lines of a command, one for each form.
fn alternatives(syntax: &str) -> Vec<String> {
    match syntax.split_once("|FIELDS ") {
        Some((first, second)) => {
            let start = first.split(" LEN ").next().expect("text has a start");
            vec![first.to_owned(), format!("{start} FIELDS {second}")]
        }
        None => vec![syntax.to_owned()],
    }
}

#[test]
fn every_command_reports_its_keys() {
    let server = Server::start();
    let mut client = server.client();
    let mut left = registered(&mut client);
    for row in KEYS {
        left.remove(&row.command());
        let keys: Vec<String> = row.keys.iter().map(|(key, _)| (*key).to_owned()).collect();
        let reported = reply::array(client.ok(&format!("COMMAND GETKEYS {}", row.line)));
        let reported: Vec<String> = reported.into_iter().map(reply::text).collect();
        assert_eq!(reported, keys, "COMMAND GETKEYS {}", row.line);
    }
    assert!(left.is_empty(), "no row of the table of keys for {left:?}");
}

#[test]
fn getkeys_never_crashes() {
    let mut server = Server::start();
    let mut client = server.client();
    for name in registered(&mut client) {
        for count in 0..6 {
            let mut args = args!["COMMAND", "GETKEYS", name].to_vec();
            args.extend(vec![b"x".to_vec(); count]);
            client.call(&args);
            args[1] = b"GETKEYSANDFLAGS".to_vec();
            client.call(&args);
        }
    }
    server.assert_alive();
}
