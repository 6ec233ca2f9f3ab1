//! Function calls that are not the translation of a command.

use super::fallback::{Call, Fallback, Form};
use countint_tests::{args, line, reply};

/// A wrong number of keys, an unknown name, and no name.
#[test]
fn calls_without_a_command_get_errors() {
    const SYNTAX: &str = "(error) ERR syntax error";
    let arity = |name: &str| format!("(error) ERR wrong number of arguments for '{name}' command");
    let calls = [
        ("cint_get", "k k", "0", arity("cint.get")),
        ("cint_get", "", "0", arity("cint.get")),
        ("cint_mdump", "", "", arity("cint.mdump")),
        ("cint_mread", "", "3", arity("cint.mread")),
        ("cint_mread", "k", "3 4", arity("cint.mread")),
        ("cint_apply", "k j", "4 0 0 0 1", arity("cint.apply")),
        ("cint_mark", "", "1", arity("rbm.mark")),
        (
            "cint_mark",
            "a b c d",
            "1 COUNT 0 EVENT f v",
            arity("rbm.mark"),
        ),
        ("cint_mark", "a b", "1", SYNTAX.into()),
        ("cint_mark", "a", "1 COUNT 0", SYNTAX.into()),
        ("cint_mark", "a b", "1 COUNT 0 EVENT f v", SYNTAX.into()),
        ("cint_mark", "a b c", "1 EVENT f v", SYNTAX.into()),
        ("CINT_LEN", "k", "", "(integer) 0".into()),
        ("nosuch", "k", "", "(error) ERR Function not found".into()),
        ("", "k", "", "(error) ERR Function not found".into()),
    ];
    let server = Fallback::server().start();
    for form in Form::ALL {
        let mut fallback = Fallback::load(server.client(), form);
        for (function, keys, args, printed) in &calls {
            let split = |words| line::split(words).expect("valid quotes");
            let call = Call {
                function: (*function).to_owned(),
                keys: split(keys),
                args: split(args),
            };
            let words = fallback.words(&call, false);
            let got = reply::format(&fallback.client.call(&words));
            assert_eq!(&got, printed, "{call:?} ({form:?})");
        }
        assert_eq!(fallback.client.run("DBSIZE"), "(integer) 0");
    }
    let mut script = Fallback::load(server.client(), Form::Script);
    let words = script.words(&Call::of_line("CINT.LEN k"), false);
    let got = script.client.call(&args![words[0], words[1], 0]);
    assert_eq!(reply::format(&got), "(error) ERR Function not found");
}
