//! `fallback/countint.lua` replies to the same commands as the module does. [`differences`] lists the exceptions with
//! their reasons; a row that covers no reply fails the tests.

mod calls;
mod differences;
mod effects;
mod fallback;
mod large;
mod page;
mod random;

use countint_tests::scenario::{Step, matches, parse};
use countint_tests::{Client, Scenario, Server, reply};
use differences::{DIFFERENCES, MODULE_ONLY_SCENARIOS, NO_FUNCTION};
use fallback::{Call, Fallback, Form};
use std::collections::{BTreeMap, BTreeSet};

/// The module and both forms of the functions, each on its own server.
struct Fixture {
    _servers: Vec<Server>,
    module: Client,
    fallbacks: Vec<(Form, Fallback)>,
    /// The number of uses of each row of [`DIFFERENCES`].
    used: Vec<u32>,
    failed: Vec<String>,
}

impl Fixture {
    fn start(resp3: bool) -> Fixture {
        let connect = |server: &Server| match resp3 {
            true => server.client3(),
            false => server.client(),
        };
        let mut servers = vec![Server::start()];
        let module = connect(&servers[0]);
        let mut fallbacks = Vec::new();
        for form in Form::ALL {
            let server = Fallback::server().start();
            fallbacks.push((form, Fallback::load(connect(&server), form)));
            servers.push(server);
        }
        Fixture {
            _servers: servers,
            module,
            fallbacks,
            used: vec![0; DIFFERENCES.len()],
            failed: Vec::new(),
        }
    }

    fn reset(&mut self) {
        self.module.ok("FLUSHDB");
        self.module.ok("CONFIG SET countint.default-len 5");
        for (_, fallback) in &mut self.fallbacks {
            fallback.client.ok("FLUSHDB");
            fallback.set_default_len("5");
        }
    }

    /// Runs a command on all servers and compares. `expected` is a pattern for replies that differ between runs.
    fn compare(&mut self, place: &str, command: &[Vec<u8>], expected: Option<&str>) {
        let module = reply::format(&self.module.call(command));
        for (form, fallback) in &mut self.fallbacks {
            let got = reply::format(&fallback.call(command));
            let both = |expected| matches(expected, &module) && matches(expected, &got);
            if got == module || expected.is_some_and(both) {
                continue;
            }
            // If the equivalent is a command of the server, errors name that command.
            let name = fallback.translate(command).unwrap_or_default();
            let name = match Call::of(command) {
                Some(_) => &command[0],
                None => &name[0],
            };
            let name = String::from_utf8_lossy(name).to_ascii_uppercase();
            let row = DIFFERENCES
                .iter()
                .position(|row| row.explains(&name, &module, &got));
            match row {
                Some(row) => self.used[row] += 1,
                None => self.failed.push(format!(
                    "{place} ({form:?})\n module: {}\nwithout: {}",
                    shorten(&module),
                    shorten(&got)
                )),
            }
        }
    }

    fn play(&mut self, name: &str, steps: &[Step]) {
        self.reset();
        for step in steps {
            let place = format!("{name}:{} > {}", step.line, step.command);
            let volatile = step.reply.contains("<number>").then_some(&*step.reply);
            self.compare(&place, &step.args, volatile);
        }
    }
}

fn shorten(text: &str) -> &str {
    text.get(..2000).unwrap_or(text)
}

/// The steps of cases.txt.
fn cases() -> Vec<Step> {
    let lines = include_str!("cases.txt").lines().enumerate();
    parse(lines.map(|(i, line)| (i + 1, line))).unwrap_or_else(|why| panic!("cases.txt:{why}"))
}

fn check_all_cases(resp3: bool) {
    let mut fixture = Fixture::start(resp3);
    for scenario in Scenario::all() {
        if !MODULE_ONLY_SCENARIOS
            .iter()
            .any(|(name, _)| *name == scenario.name)
        {
            fixture.play(&scenario.name, &scenario.steps);
        }
    }
    fixture.play("cases.txt", &cases());
    fixture.reset();
    for command in large::commands() {
        let place = format!(
            "large > {} ... ({} words)",
            String::from_utf8_lossy(&command[0]),
            command.len()
        );
        fixture.compare(&place, &command, None);
    }
    assert!(
        fixture.failed.is_empty(),
        "{} replies differ:\n\n{}",
        fixture.failed.len(),
        fixture.failed.join("\n\n")
    );
    for (row, used) in DIFFERENCES.iter().zip(&fixture.used) {
        assert!(
            *used > 0,
            "no reply differs as in this row: {:?} {:?} {:?} ({})",
            row.commands,
            row.module,
            row.fallback,
            row.why
        );
    }
}

#[test]
fn cases_agree_in_resp2() {
    check_all_cases(false);
}

#[test]
fn cases_agree_in_resp3() {
    check_all_cases(true);
}

/// The replies in cases.txt are the module's. scenarios.rs checks those of the scenarios.
#[test]
fn cases_hold_for_the_module() {
    let server = Server::start();
    let mut client = server.client();
    for step in cases() {
        let got = reply::format(&client.call(&step.args));
        assert!(
            matches(&step.reply, &got),
            "cases.txt:{} > {}\n{got}",
            step.line,
            step.command
        );
    }
}

#[test]
fn skipped_scenarios_use_commands_without_a_function() {
    let all: BTreeMap<String, Vec<Step>> = Scenario::all()
        .into_iter()
        .map(|scenario| (scenario.name, scenario.steps))
        .collect();
    for (name, why) in MODULE_ONLY_SCENARIOS {
        let steps = all
            .get(name)
            .unwrap_or_else(|| panic!("no scenario {name}"));
        let command = why.split(';').next().expect("a reason has a first word");
        let is_used = steps
            .iter()
            .any(|step| step.args[0].eq_ignore_ascii_case(command.as_bytes()));
        assert!(is_used, "{name} does not use {command}");
        assert!(
            NO_FUNCTION
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(command)),
            "{command} has a function, so {name} must not be skipped"
        );
    }
}

#[test]
fn every_command_has_a_function_or_a_reason() {
    let module = Server::start();
    let registered = reply::array(module.client().ok("COMMAND LIST FILTERBY MODULE countint"));
    let registered: BTreeSet<String> = registered.into_iter().map(reply::text).collect();
    let without = NO_FUNCTION.iter().map(|(name, _)| *name);
    let reported: BTreeSet<String> = without
        .chain(fallback::FUNCTIONS)
        .map(str::to_owned)
        .collect();
    assert_eq!(reported, registered);
    assert_eq!(
        NO_FUNCTION.len() + fallback::FUNCTIONS.len(),
        registered.len(),
        "a command is listed twice"
    );
    let plain = Fallback::server().start();
    let fallback = Fallback::load(plain.client(), Form::Function);
    let mut client = fallback.client;
    let libraries = client.run("FUNCTION LIST LIBRARYNAME countint");
    for name in fallback::FUNCTIONS {
        let call = Call::of(&[name.as_bytes().to_vec()]).expect("the command has a function");
        assert!(
            libraries.contains(&format!("\"{}\"", call.function)),
            "{} is not registered",
            call.function
        );
    }
    let registered = libraries.matches("\"flags\"").count();
    assert_eq!(registered, fallback::FUNCTIONS.len(), "{libraries}");
}
