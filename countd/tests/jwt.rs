//! JSON Web Tokens: a client acts for the user of its token only.

use crate::support::{Api, Countd, Response, Settings, metric, on_note, run, set_schema, with};
use crate::tokens::replace_secretly;
use countint_tests::env::TempDir;
use countint_tests::{Server, wait_until};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECRET: &[u8] = b"a secret of tests alone, of 32 bytes and more";

fn rsa() -> EncodingKey {
    EncodingKey::from_rsa_der(include_bytes!("jwt/rsa.der"))
}

fn ec() -> EncodingKey {
    EncodingKey::from_ec_der(include_bytes!("jwt/ec.der"))
}

fn next_ec() -> EncodingKey {
    EncodingKey::from_ec_der(include_bytes!("jwt/ec-next.der"))
}

/// The public key of a signing key.
fn jwk(key: &EncodingKey, algorithm: Algorithm, kid: &str) -> Jwk {
    let mut jwk = Jwk::from_encoding_key(key, algorithm).expect("a key");
    jwk.common.key_id = Some(kid.to_owned());
    jwk
}

fn write_jwks(path: &Path, keys: &[Jwk]) {
    // Renamed, so that a reader never sees a part of it.
    let new = path.with_extension("new");
    fs::write(&new, json!({ "keys": keys }).to_string()).expect("the directory is writable");
    fs::rename(new, path).expect("the directory is writable");
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

fn claims(sub: &str) -> Json {
    json!({ "sub": sub, "exp": now() + 3_600, "iss": "https://login.example", "aud": "countd" })
}

fn sign(key: &EncodingKey, algorithm: Algorithm, kid: Option<&str>, claims: &Json) -> String {
    let mut header = Header::new(algorithm);
    header.kid = kid.map(str::to_owned);
    encode(&header, claims, key).expect("a token")
}

fn secret() -> EncodingKey {
    EncodingKey::from_secret(SECRET)
}

fn hs256(claims: &Json) -> String {
    sign(&secret(), Algorithm::HS256, None, claims)
}

/// A server and a countd that accepts tokens of all algorithms, and a static token.
struct Deployment {
    server: Server,
    countd: Countd,
    dir: TempDir,
}

fn start() -> Deployment {
    start_with("", "")
}

/// Starts with more settings of `[auth.jwt]`, and more sections.
fn start_with(jwt: &str, sections: &str) -> Deployment {
    let (server, dir) = (Server::start(), TempDir::new());
    let (jwks, secret) = (dir.path().join("jwks.json"), dir.path().join("secret"));
    write_jwks(
        &jwks,
        &[
            jwk(&rsa(), Algorithm::RS256, "rsa-1"),
            jwk(&ec(), Algorithm::ES256, "ec-1"),
        ],
    );
    fs::write(&secret, [SECRET, b"\n"].concat()).expect("the directory is writable");
    let config = format!(
        "[auth]\ntokens = [{{ name = \"feed\", token = \"service-service-service\", rights = [\"read\", \"write\", \"admin\"] }}]\n\
         [auth.jwt]\njwks_file = {jwks:?}\nhs256_secret_file = {secret:?}\nissuer = \"https://login.example\"\naudience = \"countd\"\n\
         leeway_seconds = 5\n{jwt}{sections}[users]\ncounters = [\"unread\", \"coins\"]\nresettable = [\"unread\"]\n"
    );
    set_schema(&server, &config);
    let command = "serve";
    let config = &config;
    let countd = Countd::with(&server, &Settings { command, config });
    Deployment {
        server,
        countd,
        dir,
    }
}

fn with_token(countd: &Countd, token: &str) -> Api {
    countd.api().authorized(&format!("Bearer {token}"))
}

#[track_caller]
fn assert_code(response: &Response, status: u16, code: &str) {
    assert_eq!(
        (response.status, response.json["code"].as_str()),
        (status, Some(code)),
        "{}",
        response.json
    );
}

#[test]
fn tokens_of_each_algorithm_act_for_their_user_only() {
    let Deployment { countd, .. } = &start();
    for (eid, token) in (1..).zip([
        hs256(&claims("42")),
        sign(&rsa(), Algorithm::RS256, Some("rsa-1"), &claims("42")),
        sign(&ec(), Algorithm::ES256, Some("ec-1"), &claims("42")),
        // Each algorithm has one key, so a key ID is not needed.
        sign(&rsa(), Algorithm::RS256, None, &claims("42")),
        // The secret has no key ID, so a token may have any.
        sign(&secret(), Algorithm::HS256, Some("k-1"), &claims("42")),
    ]) {
        let api = with_token(countd, &token);
        assert_eq!(api.act("like", on_note(eid, 42))["changed"], true);
        let other = api.request("/action/like", &[], Some(&on_note(eid, 43)));
        assert_code(&other, 403, "uid_mismatch");
        assert_eq!(api.counts(eid)["like"], 1);
        let items = json!([{ "etype": "note", "eid": eid.to_string() }]);
        for path in ["/status/batch", "/feed"] {
            let request = |uid: &str| json!({ "uid": uid, "items": items });
            let page = api.ok(api.post(path, &request("42")));
            assert_eq!(page["items"][0]["status"]["like"], true);
            let other = api.request(path, &[], Some(&request("43")));
            assert_code(&other, 403, "uid_mismatch");
        }
        let status = |uid: u64| api.request(&format!("/status/note/{eid}?uid={uid}"), &[], None);
        assert_eq!(status(42).status, 200);
        assert_code(&status(43), 403, "uid_mismatch");
        for path in ["like/note", "followings"] {
            let of = |uid: u64| api.request(&format!("/user/{uid}/{path}"), &[], None);
            assert_eq!(of(42).status, 200);
            assert_code(&of(43), 403, "uid_mismatch");
        }
        // The lists of users are public, as in /who.
        let followers = api.request("/user/43/followers", &[], None);
        assert_eq!(followers.status, 200);
        let line = |uid: u64| with(on_note(eid, uid), json!({ "metric": "fav" })).to_string();
        let lines = [line(42), line(43)].join("\n");
        let (status, text) = api.try_post("/actions", &lines).expect("a response");
        let lines: Vec<Json> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(
            (status, &lines[0]["changed"]),
            (200, &json!(true)),
            "{text}"
        );
        assert_eq!(lines[1]["error"]["code"], "uid_mismatch", "{text}");
        assert_eq!(lines[1]["error"]["status"], 403, "{text}");
        // Requests that are not about one user, and those without the right.
        let reset = json!({ "etype": "note", "eid": "1", "metric": "read" });
        assert_code(
            &api.request("/counter/reset", &[], Some(&reset)),
            403,
            "forbidden",
        );
        assert_code(
            &api.request("/events", &[], Some(&json!([]))),
            403,
            "forbidden",
        );
        assert_code(&api.request("/metrics", &[], None), 403, "forbidden");
    }
    let service = with_token(countd, "service-service-service");
    assert_eq!(service.act("like", on_note(1, 43))["changed"], true);
    let requests = |name: &str| format!("countd_token_requests_total{{token=\"{name}\"}}");
    assert!(metric(&service, &requests("jwt")) > 40);
    assert!(metric(&service, &requests("feed")) >= 2);
}

#[test]
fn invalid_tokens_are_rejected() {
    let Deployment { countd, .. } = &start();
    let change = |more: Json| with(claims("42"), more);
    let without = |claim: &str| {
        let mut claims = claims("42");
        claims.as_object_mut().expect("claims").remove(claim);
        claims
    };
    let valid = hs256(&claims("42"));
    let (head, signature) = valid.rsplit_once('.').expect("three parts");
    let other_secret = EncodingKey::from_secret(b"another secret of more than 32 bytes");
    let unsigned = {
        // {"alg":"none","typ":"JWT"}
        let body = head.split('.').nth(1).expect("claims");
        format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{body}.")
    };
    // The public key of RS256 as the secret of HS256.
    let confused = EncodingKey::from_secret(
        json!(jwk(&rsa(), Algorithm::RS256, "rsa-1"))
            .to_string()
            .as_bytes(),
    );
    let bad = [
        String::new(),
        "a.b.c".to_owned(),
        format!("{head}.{}", signature.chars().rev().collect::<String>()),
        unsigned,
        sign(&other_secret, Algorithm::HS256, None, &claims("42")),
        sign(&confused, Algorithm::HS256, Some("rsa-1"), &claims("42")),
        sign(&next_ec(), Algorithm::ES256, Some("ec-1"), &claims("42")),
        sign(&ec(), Algorithm::ES256, Some("rsa-1"), &claims("42")),
        sign(&ec(), Algorithm::ES256, Some("unknown"), &claims("42")),
        sign(&secret(), Algorithm::HS512, None, &claims("42")),
        sign(&rsa(), Algorithm::RS512, Some("rsa-1"), &claims("42")),
        hs256(&change(json!({ "exp": now() - 60 }))),
        hs256(&change(json!({ "exp": "tomorrow" }))),
        hs256(&change(json!({ "nbf": now() + 600 }))),
        hs256(&change(json!({ "nbf": "yesterday" }))),
        hs256(&change(json!({ "iss": "https://other.example" }))),
        hs256(&change(json!({ "aud": "another" }))),
        hs256(&change(json!({ "sub": "a user" }))),
        hs256(&change(json!({ "sub": 42 }))),
        hs256(&without("exp")),
        hs256(&without("iss")),
        hs256(&without("aud")),
        hs256(&without("sub")),
    ];
    for token in bad {
        let api = with_token(countd, &token);
        let response = api.request("/action/like", &[], Some(&on_note(1, 42)));
        assert_code(&response, 401, "unauthorized");
    }
    assert_eq!(
        with_token(countd, &valid).act("like", on_note(1, 42))["count"],
        1
    );
    assert!(!countd.log().contains(signature), "tokens are not logged");
}

#[test]
fn changed_keys_are_read_again() {
    let deployment = start();
    let countd = &deployment.countd;
    let jwks = deployment.dir.path().join("jwks.json");
    let old = sign(&ec(), Algorithm::ES256, Some("ec-1"), &claims("42"));
    let new = sign(&next_ec(), Algorithm::ES256, Some("ec-2"), &claims("42"));
    let status = |token: &str| with_token(countd, token).get("/counter/note/1").0;
    assert_eq!((status(&old), status(&new)), (200, 401));
    // During a rotation, both keys are valid.
    let both = [
        jwk(&ec(), Algorithm::ES256, "ec-1"),
        jwk(&next_ec(), Algorithm::ES256, "ec-2"),
    ];
    write_jwks(&jwks, &both);
    wait_until("the new key is known", || status(&new) == 200);
    assert_eq!(status(&old), 200);
    let unnamed = sign(&ec(), Algorithm::ES256, None, &claims("42"));
    assert_eq!(status(&unnamed), 401, "two keys are possible");
    write_jwks(&jwks, &both[1..]);
    wait_until("the old key is gone", || status(&old) == 401);
    assert_eq!(status(&new), 200);
    // With a broken file, the keys stay.
    for text in ["nonsense", "{\"keys\":[]}"] {
        fs::write(&jwks, text).expect("the directory is writable");
        wait_until("the error is logged", || {
            countd.log().matches("the old keys stay").count() > usize::from(text != "nonsense")
        });
        assert_eq!(status(&new), 200, "{text}");
    }
    assert_eq!(deployment.server.client().run("PING"), "PONG");
}

/// Only the signal tells that the files have changed: their lengths and times have not.
#[test]
fn keys_are_read_again_at_sighup() {
    let deployment = start();
    let (countd, dir) = (&deployment.countd, deployment.dir.path());
    let status = |token: &str| with_token(countd, token).get("/counter/note/1").0;
    let old_secret = hs256(&claims("42"));
    let other = SECRET.to_ascii_uppercase();
    let key = EncodingKey::from_secret(&other);
    let new_secret = sign(&key, Algorithm::HS256, None, &claims("42"));
    let jwks = dir.join("jwks.json");
    let set = |key: &EncodingKey| json!({ "keys": [jwk(key, Algorithm::ES256, "ec-1")] });
    let of = |key: &EncodingKey| sign(key, Algorithm::ES256, Some("ec-1"), &claims("42"));
    let (old_key, new_key) = (of(&ec()), of(&next_ec()));
    write_jwks(&jwks, &[jwk(&ec(), Algorithm::ES256, "ec-1")]);
    let of_rsa = sign(&rsa(), Algorithm::RS256, Some("rsa-1"), &claims("42"));
    wait_until("the set has one key", || status(&of_rsa) == 401);
    assert_eq!([&old_secret, &old_key].map(|token| status(token)), [200; 2]);

    let secret = dir.join("secret");
    replace_secretly(
        &secret,
        &String::from_utf8_lossy(&[&other, &b"\n"[..]].concat()),
    );
    replace_secretly(&jwks, &set(&next_ec()).to_string());
    // Longer than the interval of checks.
    thread::sleep(Duration::from_secs(2));
    assert_eq!([&old_secret, &old_key].map(|token| status(token)), [200; 2]);
    countd.signal("HUP");
    wait_until("the new keys are valid", || {
        [&new_secret, &new_key]
            .iter()
            .all(|token| status(token) == 200)
    });
    assert_eq!([&old_secret, &old_key].map(|token| status(token)), [401; 2]);

    // An invalid file that only the signal tells of keeps the keys.
    replace_secretly(&secret, &" ".repeat(other.len() + 1));
    let errors = || countd.log().matches("the old keys stay").count();
    assert_eq!(errors(), 0);
    countd.signal("HUP");
    wait_until("the file is refused", || errors() > 0);
    assert_eq!([&new_secret, &new_key].map(|token| status(token)), [200; 2]);
}

#[test]
fn a_key_without_an_id_accepts_key_ids_that_no_key_has() {
    let deployment = start();
    let jwks = deployment.dir.path().join("jwks.json");
    let unnamed = |key: &EncodingKey| {
        let mut jwk = jwk(key, Algorithm::ES256, "");
        jwk.common.key_id = None;
        jwk
    };
    let token =
        |key: &EncodingKey, kid: &str| sign(key, Algorithm::ES256, Some(kid), &claims("42"));
    let status = |token: &str| {
        with_token(&deployment.countd, token)
            .get("/counter/note/1")
            .0
    };
    write_jwks(&jwks, &[unnamed(&ec())]);
    wait_until("the only key accepts any ID", || {
        status(&token(&ec(), "k-1")) == 200
    });
    write_jwks(
        &jwks,
        &[unnamed(&ec()), jwk(&next_ec(), Algorithm::ES256, "ec-2")],
    );
    wait_until("a key with the ID comes first", || {
        status(&token(&next_ec(), "ec-2")) == 200
    });
    assert_eq!(status(&token(&ec(), "k-1")), 200);
    assert_eq!(status(&token(&ec(), "ec-2")), 401);
    assert_eq!(status(&token(&next_ec(), "k-1")), 401);
    write_jwks(&jwks, &[unnamed(&ec()), unnamed(&next_ec())]);
    wait_until("two keys are possible", || {
        status(&token(&ec(), "k-1")) == 401
    });
}

#[test]
fn unusable_key_files_stop_the_start() {
    let server = Server::start();
    let dir = TempDir::new();
    let file = dir.path().join("file");
    for (setting, text) in [
        ("jwks_file", None),
        ("jwks_file", Some("nonsense")),
        ("jwks_file", Some("{\"keys\":[]}")),
        ("hs256_secret_file", Some("too short")),
    ] {
        let _ = fs::remove_file(&file);
        if let Some(text) = text {
            fs::write(&file, text).expect("the directory is writable");
        }
        let config = format!("[auth.jwt]\n{setting} = {file:?}\n");
        let output = run(&server, &config, &["serve"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{setting}: {text:?}");
        assert!(errors.contains(&format!("{}", file.display())), "{errors}");
    }
    for config in [
        "[auth.jwt]\njwks_file = \"x\"\nrights = []\n",
        "[auth.jwt]\nleeway_seconds = 100000\n",
        "[auth]\ntokens = [{ name = \"a\", token = \"0123456789abcdef\", rights = [\"read\"] }, { name = \"a\", token = \"0123456789abcdeg\", rights = [\"read\"] }]\n",
    ] {
        let output = run(&server, config, &["check"]);
        assert!(!output.status.success(), "{config}");
    }
}

#[test]
fn users_reset_only_their_own_resettable_counters() {
    let Deployment { countd, .. } = &start();
    let user = with_token(countd, &hs256(&claims("42")));
    let service = with_token(countd, "service-service-service");
    let reset = |api: &Api, uid: &str, counter: &str| {
        let request = json!({ "uid": uid, "counter": counter });
        api.request("/relation/counter/reset", &[], Some(&request))
    };
    assert_eq!(reset(&user, "42", "unread").json, json!({ "was": 0 }));
    assert_code(&reset(&user, "43", "unread"), 403, "uid_mismatch");
    for counter in ["coins", "posts", "gems"] {
        assert_code(&reset(&user, "42", counter), 403, "forbidden");
    }
    for counter in ["unread", "coins"] {
        assert_eq!(reset(&service, "43", counter).json, json!({ "was": 0 }));
    }
    assert_code(&reset(&service, "43", "posts"), 422, "unprocessable");
}

/// Actions of user 42 that would act on other users: an author, and removals of repeatable metrics by name and by alias.
fn actions_on_others(eid: u64) -> [(&'static str, Json); 4] {
    let author = json!({ "author": "7" });
    let removal = json!({ "op": "remove" });
    [
        ("like", with(on_note(eid, 42), author.clone())),
        ("read", with(on_note(eid, 42), author)),
        ("comment", with(on_note(eid, 42), removal.clone())),
        ("view", with(on_note(eid, 42), removal)),
    ]
}

/// The response to an action, alone and as a line.
fn act_both_ways(api: &Api, metric: &str, action: &Json) -> [Json; 2] {
    let alone = api.request(&format!("/action/{metric}"), &[], Some(action));
    let line = with(action.clone(), json!({ "metric": metric })).to_string();
    let (status, text) = api.try_post("/actions", &line).expect("a response");
    assert_eq!(status, 200, "{text}");
    let line: Json = serde_json::from_str(&text).expect("JSON");
    let error = line.get("error").unwrap_or(&line).clone();
    [alone.json, error]
}

#[test]
fn users_name_no_authors_and_remove_no_repeatable_metrics() {
    let Deployment { countd, .. } = &start();
    let user = with_token(countd, &hs256(&claims("42")));
    let service = with_token(countd, "service-service-service");
    for (metric, action) in actions_on_others(1) {
        for prefix in ["", "/api/v1"] {
            let path = format!("{prefix}/action/{metric}");
            let response = user.request(&path, &[], Some(&action));
            assert_code(&response, 403, "forbidden");
        }
        for response in act_both_ways(&user, metric, &action) {
            assert_eq!(
                response["code"], "forbidden",
                "{metric} {action}: {response}"
            );
        }
    }
    let author = |eid: u64| service.get(&format!("/entity/note/{eid}")).1["author"].clone();
    assert_eq!(author(1), Json::Null);
    assert_eq!(user.counts(1)["like"], 0);
    // Users remove their own facts and name themselves; a service may do both.
    let own = with(on_note(2, 42), json!({ "author": "42" }));
    assert_eq!(user.act("like", own)["changed"], true);
    assert_eq!(author(2), "42");
    assert_eq!(user.act("unlike", on_note(2, 42))["changed"], true);
    let removal = with(on_note(2, 42), json!({ "op": "remove" }));
    assert_eq!(user.act("like", removal)["changed"], false);
    assert_eq!(user.act("publish", on_note(3, 42))["changed"], true);
    for (metric, action) in actions_on_others(4) {
        for response in act_both_ways(&service, metric, &action) {
            assert!(response["changed"].is_boolean(), "{metric}: {response}");
        }
    }
    assert_eq!(author(4), "7");
}

#[test]
fn settings_permit_users_to_name_authors_and_to_remove() {
    for (setting, permitted) in [("may_name_authors", 0..2), ("may_remove_repeatable", 2..4)] {
        let Deployment { countd, .. } = &start_with(&format!("{setting} = true\n"), "");
        let user = with_token(countd, &hs256(&claims("42")));
        for (index, (metric, action)) in actions_on_others(1).iter().enumerate() {
            for response in act_both_ways(&user, metric, action) {
                let is_permitted = response["changed"].is_boolean();
                assert_eq!(
                    is_permitted,
                    permitted.contains(&index),
                    "{metric}: {response}"
                );
            }
        }
    }
}

#[test]
fn tokens_of_users_do_not_permit_requests_about_others() {
    let rights = "rights = [\"read\", \"write\", \"admin\"]\n";
    let Deployment { countd, .. } = &start_with(rights, "[changes]\nenabled = true\n");
    let user = with_token(countd, &hs256(&claims("42")));
    let json = [("content-type", "application/json")];
    let adjustment =
        r#"{ "etype": "note", "eid": "1", "metric": "read", "set": 1, "reason": "r" }"#;
    for root in ["", "/api/v1"] {
        for (method, path, body) in [
            ("POST", "/events", "[]"),
            (
                "POST",
                "/counter/reset",
                r#"{ "etype": "note", "eid": "1", "metric": "read" }"#,
            ),
            ("POST", "/counter/adjust", adjustment),
            ("PUT", "/entity/note/1", r#"{ "author": "42" }"#),
            ("PUT", "/entity/note/1", r#"{ "author": null }"#),
            ("DELETE", "/entity/note/1", ""),
            ("DELETE", "/user/42", ""),
            ("GET", "/jobs/0123456789abcdef0123456789abcdef", ""),
            ("GET", "/hot", ""),
            ("GET", "/changes", ""),
        ] {
            let headers = if body.is_empty() { &[][..] } else { &json };
            let response = user.request_text(method, &format!("{root}{path}"), headers, body);
            assert_code(&response, 403, "forbidden");
        }
    }
    assert_eq!(user.get("/entity/note/1").1["author"], Json::Null);
}
