//! Static tokens that are replaced while countd runs, and listening without tokens.

use crate::support::{Countd, Settings, run, set_schema};
use countint_tests::env::TempDir;
use countint_tests::{Server, wait_until};
use std::fs::{self, File};
use std::path::Path;

fn tokens(secret: &str) -> String {
    format!("[{{ \"name\": \"feed\", \"token\": \"{secret}\", \"rights\": [\"read\"] }}]")
}

/// The status of a read with a token.
fn status(countd: &Countd, secret: &str) -> u16 {
    let api = countd.api().authorized(&format!("Bearer {secret}"));
    api.get("/counter/note/1").0
}

/// Replaces a file by one of the same length and time, so that only a signal tells that it has changed.
pub fn replace_secretly(file: &Path, text: &str) {
    let metadata = fs::metadata(file).expect("a file");
    assert_eq!(metadata.len(), text.len() as u64);
    let other = file.with_extension("new");
    fs::write(&other, text).expect("written");
    let opened = File::options().write(true).open(&other).expect("a file");
    let modified = metadata.modified().expect("a time");
    opened.set_modified(modified).expect("a time");
    fs::rename(&other, file).expect("renamed");
}

#[test]
fn tokens_rotate_without_a_restart() {
    let (server, dir) = (Server::start(), TempDir::new());
    let file = dir.path().join("tokens.json");
    fs::write(&file, tokens("first-token-of-feed")).expect("written");
    let config = |own: &str| {
        let file = file.display();
        format!(
            "[auth]\ntokens_file = \"{file}\"\ntokens = [{{ token = \"{own}\", rights = [\"read\"] }}]\n"
        )
    };
    set_schema(&server, "");
    let command = "serve";
    let text = config("first-own-token-of-it");
    let settings = Settings {
        command,
        config: &text,
    };
    let mut countd = Countd::with(&server, &settings);
    assert_eq!(status(&countd, "first-token-of-feed"), 200);
    assert_eq!(status(&countd, "first-own-token-of-it"), 200);
    assert_eq!(status(&countd, "other-token-of-feed"), 401);

    fs::write(&file, tokens("second-token-of-feed")).expect("written");
    wait_until("the new token is accepted", || {
        status(&countd, "second-token-of-feed") == 200
    });
    assert_eq!(status(&countd, "first-token-of-feed"), 401);
    assert_eq!(status(&countd, "first-own-token-of-it"), 200);

    countd.configure(&config("second-own-token-of-it"));
    wait_until("the new token of the configuration is accepted", || {
        status(&countd, "second-own-token-of-it") == 200
    });
    assert_eq!(status(&countd, "first-own-token-of-it"), 401);

    fs::write(&file, "[{ \"token\": \"third-token-of-feed\"").expect("written");
    wait_until("the file is refused", || {
        countd.log().contains("the old tokens stay")
    });
    assert_eq!(status(&countd, "second-token-of-feed"), 200);
    assert!(!countd.log().contains("third-token-of-feed"));

    fs::write(&file, tokens("third-token-of-feed")).expect("written");
    wait_until("the file is read", || {
        status(&countd, "third-token-of-feed") == 200
    });
    replace_secretly(&file, &tokens("forth-token-of-feed"));
    countd.signal("HUP");
    wait_until("the file is read at SIGHUP", || {
        status(&countd, "forth-token-of-feed") == 200
    });
    assert_eq!(status(&countd, "third-token-of-feed"), 401);
    countd.stop();
}

#[test]
fn a_process_without_tokens_survives_sighup() {
    let server = Server::start();
    let mut countd = Countd::start(&server, "");
    countd.signal("HUP");
    assert_eq!(countd.api().get("/healthz").0, 200);
    countd.stop();
}

#[test]
fn other_machines_need_a_token_unless_the_configuration_says_otherwise() {
    let server = Server::start();
    let check = |config: &str| {
        let output = run(&server, config, &["check"]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let token = "[auth]\ntokens = [{ token = \"a-long-enough-token\", rights = [\"read\"] }]\n";
    for section in ["http", "consumer", "relay", "sink"] {
        let listen = format!("[{section}]\nlisten = \"0.0.0.0:8090\"\n");
        let (setting, errors) = (format!("{section}.listen"), check(&listen));
        let is_refused =
            errors.contains(&setting) && errors.contains("auth.allow_anonymous = true");
        assert!(is_refused, "{errors}");
        for more in [token, "[auth]\nallow_anonymous = true\n"] {
            let errors = check(&format!("{listen}{more}"));
            assert!(!errors.contains(&setting), "{errors}");
        }
    }
}
