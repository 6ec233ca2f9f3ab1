//! The arguments of `countd import`.

use super::setup::{Files, imported, outcome, set_schema};
use countint_tests::Server;

#[test]
fn wrong_arguments_are_usage_errors() {
    let server = Server::start();
    set_schema(&server);
    let files = Files::new();
    let file = files.write("records", "");
    let csv = files.write("records.csv", "etype,eid,read\n");
    for (words, file, expected) in [
        ("facts", &csv, "--job"),
        ("facts --job a:b", &csv, "a name has"),
        ("facts --job a", &String::new(), "<FILE>"),
        ("facts --job a", &file, "--format: required"),
        (
            "counts --job a --from packed --pattern a:{id} --etype note",
            &csv,
            "cannot be used with",
        ),
        ("facts --job a --pattern a:{id}", &csv, "--from"),
        (
            "facts --job a --from sets",
            &String::new(),
            "--from requires --pattern",
        ),
        (
            "facts --job a --from sets --pattern a",
            &String::new(),
            "a pattern is a key with {id}",
        ),
        (
            "facts --job a --from sets --pattern a:{id} --etype note",
            &String::new(),
            "--from requires --metric",
        ),
        (
            "facts --job a --from sets --pattern a:{id} --metric rbm",
            &String::new(),
            "--from requires --etype",
        ),
        (
            "facts --job a --from packed --pattern a:{id}",
            &String::new(),
            "possible values: sets, bitmap",
        ),
        (
            "counts --job a --from packed --pattern a:{id} --etype note",
            &String::new(),
            "requires --fields",
        ),
        (
            "counts --job a --from hash-per-counter --etype note",
            &String::new(),
            "requires --map",
        ),
        (
            "counts --job a --from hash-per-counter --etype note --map a=read,b=view",
            &String::new(),
            "each metric once",
        ),
        (
            "counts --job a --from hash-per-entity --pattern a:{id} --etype note --fields read",
            &String::new(),
            "require --from packed",
        ),
        (
            "counts --job a --mode max",
            &csv,
            "possible values: add, set",
        ),
        ("counts --job a --map read", &csv, "expected NAME=METRIC"),
    ] {
        let (status, printed, errors) = outcome(&server, words, file);
        assert_eq!((status, printed.as_str()), (2, ""), "{words}: {errors}");
        assert!(errors.contains(expected), "{words}: {errors}");
    }
}

#[test]
fn files_that_cannot_be_read_are_reported() {
    let server = Server::start();
    set_schema(&server);
    let files = Files::new();
    let missing = files.path().join("missing.csv").display().to_string();
    let (status, _, errors) = outcome(&server, "facts --job a", &missing);
    assert!(
        status == 1 && errors.contains("missing.csv: No such file"),
        "{errors}"
    );
    let directory = files.path().display().to_string();
    let (status, _, errors) = outcome(&server, "facts --job a --format csv", &directory);
    assert!(
        status == 1 && errors.contains("not a regular file"),
        "{errors}"
    );
    let empty = files.write("empty.ndjson", "");
    let printed = imported(&server, "counts --job a", &empty);
    assert!(printed.starts_with("imported: 0 records"), "{printed}");
}

#[test]
fn a_forgotten_import_can_be_run_again() {
    let server = Server::start();
    set_schema(&server);
    let files = Files::new();
    let file = files.write("c.csv", "etype,eid,comment\nnote,1,2\n");
    imported(&server, "counts --job a", &file);
    assert_eq!(imported(&server, "forget a", ""), "import a is forgotten\n");
    let (status, _, errors) = outcome(&server, "forget a", "");
    assert!(
        status == 1 && errors.contains("there is no import a"),
        "{errors}"
    );
    let mut client = server.client();
    client.expect("KEYS countd:import:*", "(empty array)");
    // It counts again, on purpose.
    let (_, printed, _) = outcome(&server, "counts --job a", &file);
    assert!(printed.contains("the source has 2, countd 4"), "{printed}");
}
