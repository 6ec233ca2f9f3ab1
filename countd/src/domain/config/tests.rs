use super::{Config, DatabaseKind, Nature};
use crate::domain::ids::Name;

fn rejection(text: &str) -> String {
    match Config::parse(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_file_in_the_repository_contains_the_defaults() {
    let config = Config::parse("").expect("the defaults are valid");
    assert_eq!(config.log.partitions, 1024);
    assert_eq!(config.dedup.window_seconds, 2 * 24 * 3600);
    let (name, view) = config.metrics.get("view").expect("an alias");
    assert_eq!((name.as_str(), view.nature), ("read", Nature::Repeatable));
    let (name, _) = config.metrics.get("collect").expect("an alias");
    assert_eq!(name.as_str(), "fav");
    assert!(config.metrics.get("nonsense").is_none());
}

#[test]
fn the_file_of_the_debian_package_has_the_defaults() {
    let package = Config::parse(include_str!("../../../../deploy/countd.toml")).expect("valid");
    let defaults = Config::parse("").expect("the defaults are valid");
    let sections = |config: &Config| {
        let (redis, auth, limits) = (&config.redis, &config.auth, &config.limits);
        format!("{redis:?} {auth:?} {limits:?}")
    };
    assert_eq!(sections(&package), sections(&defaults));
}

#[test]
fn a_file_overrides_only_the_settings_it_names() {
    let config = Config::parse("[log]\nretain = 5\n").expect("valid");
    assert_eq!((config.log.retain, config.log.partitions), (5, 1024));
    assert!(config.metrics.get("like").is_some());
}

#[test]
fn entities_and_metrics_replace_all_defaults() {
    let text =
        "[entities]\ntopic = \"t1\"\n[metrics.join]\nnature = \"once\"\ncount = \"batched\"\n";
    let config = Config::parse(text).expect("valid");
    assert_eq!(config.entities.len(), 1);
    assert!(config.metrics.get("join").is_some() && config.metrics.get("like").is_none());
    let topic = Name::new("topic").expect("a name");
    assert_eq!(
        config.schema_of(&topic).flatten().map(Name::as_str),
        Some("t1")
    );
    let user = Name::new("user").expect("a name");
    assert_eq!(config.schema_of(&user), Some(None));
    assert_eq!(config.schema_of(&Name::new("note").expect("a name")), None);
}

#[test]
fn errors_name_the_setting() {
    for (text, setting) in [
        ("[log]\npartitions = 0", "log.partitions"),
        ("[log]\npartitions = 20000", "log.partitions"),
        ("[log]\nretian = 3", "retian"),
        ("[logs]\nretain = 3", "logs"),
        ("[http]\nlisten = \"here\"", "listen"),
        (
            "[http]\nlisten = \"0.0.0.0:80\"",
            "http.listen: other machines",
        ),
        ("[http]\nlisten = \"[::]:80\"", "http.listen"),
        (
            "[consumer]\nlisten = \"0.0.0.0:80\"",
            "consumer.listen: other machines",
        ),
        ("[relay]\nlisten = \"10.1.2.3:80\"", "relay.listen"),
        ("[sink]\nlisten = \"[::]:80\"", "sink.listen"),
        ("[http]\nkeep_alive_seconds = 0", "http.keep_alive_seconds"),
        ("[http]\ndrain_ms = 600001", "http.drain_ms"),
        ("[http.tls]\ncert_file = \"a\"", "http.tls.key_file"),
        ("[http.tls]\nkey_file = \"a\"", "http.tls.cert_file"),
        (
            "[http.cors]\norigins = [\"app.example.com\"]",
            "http.cors.origins",
        ),
        (
            "[http.cors]\norigins = [\"https://a.example/\"]",
            "http.cors.origins",
        ),
        (
            "[http.cors]\norigins = [\"*\", \"https://a.example\"]",
            "http.cors.origins",
        ),
        (
            "[http.cors]\nmax_age_seconds = 86401",
            "http.cors.max_age_seconds",
        ),
        ("[auth]\ntokens_file = \"/nowhere\"", "auth.tokens_file"),
        ("[redis.tls]\nca_file = \"a\"", "redis.tls"),
        (
            "[redis]\nurl = \"rediss://x\"\ntls.cert_file = \"a\"",
            "redis.tls.key_file",
        ),
        (
            "[redis]\nurl = \"rediss://:secret@x/#insecure\"",
            "redis.url: certificates",
        ),
        (
            "[redis.sentinel]\naddresses = [\"a\"]",
            "redis.sentinel.addresses",
        ),
        (
            "[redis.sentinel]\naddresses = [\"a:1\"]\nmaster = \"\"",
            "redis.sentinel.master",
        ),
        (
            "[redis]\nseeds = [\"b:1\"]\nsentinel.addresses = [\"a:1\"]",
            "redis.seeds",
        ),
        (
            "[redis]\nurl = \"unix:///a\"\nsentinel.addresses = [\"a:1\"]",
            "redis.url: must begin",
        ),
        ("[redis]\nack = \"all\"", "ack"),
        ("[redis]\nack = \"replicas:0\"", "ack"),
        ("[redis]\nread_from = \"any\"", "read_from"),
        ("[redis]\nmax_staleness_ms = 9", "redis.max_staleness_ms"),
        ("[redis]\nreplicas = [\"redis-2\"]", "redis.replicas"),
        ("[redis]\nack_timeout_ms = 0", "redis.ack_timeout_ms"),
        ("[redis]\nack_timeout_ms = 60001", "redis.ack_timeout_ms"),
        ("[http]\ndemo = true", "http.demo"),
        (
            "[http]\ndemo = true\n[changes]\nenabled = true\n[entities]\ntopic = \"v1\"",
            "http.demo",
        ),
        (
            "[http]\ndemo = true\n[changes]\nenabled = true\n[auth]\ntokens = [{ token = \"0123456789abcdef\", rights = [\"admin\"] }]",
            "http.demo",
        ),
        ("[consumer]\nbatch = 0", "consumer.batch"),
        ("[consumer]\nbatch = 20000", "consumer.batch"),
        ("[consumer]\nread_bytes = 1000", "consumer.read_bytes"),
        ("[hot]\nmin_rate = 0", "hot.min_rate"),
        ("[hot]\nmax_entities = 0", "hot.max_entities"),
        ("[hot]\nmax_entities = 1001", "hot.max_entities"),
        ("[hot]\ncache_ms = 99", "hot.cache_ms"),
        ("[hot]\ncache_ms = 1001", "hot.cache_ms"),
        ("[hot]\nenabled = false\ncache_ms = 100", "hot.cache_ms"),
        ("[hot]\nsplit_rate = 99", "hot.split_rate"),
        ("[hot]\nsplit_shards = 1", "hot.split_shards"),
        ("[hot]\nsplit_shards = 65", "hot.split_shards"),
        ("[prefilter]\nmax_facts = 0", "prefilter.max_facts"),
        (
            "[prefilter]\nenabled = true\n[log]\nretain = 0",
            "prefilter.enabled",
        ),
        ("[dead]\npayload_bytes = 100000", "dead.payload_bytes"),
        (
            "[http]\nmax_bodies_bytes = 2000000",
            "http.max_bodies_bytes",
        ),
        (
            "[http]\nmax_body_bytes = 9\nmax_bodies_bytes = 9",
            "http.max_bodies_bytes",
        ),
        (
            "[consumer]\nsession_timeout_ms = 1",
            "consumer.session_timeout_ms",
        ),
        (
            "[auth]\ntokens = [{ token = \"short\", rights = [\"read\"] }]",
            "auth.tokens",
        ),
        (
            "[auth]\ntokens = [{ token = \"long-enough-for-all\", rights = [] }]",
            "auth.tokens",
        ),
        (
            "[auth]\ntokens = [{ token = \"long-enough-for-all\", rights = [\"root\"] }]",
            "root",
        ),
        ("[dedup]\nevents = \"never\"", "events"),
        ("[changes]\nretain = 0", "changes.retain"),
        ("[changes]\nmax_streams = 0", "changes.max_streams"),
        (
            "[relay]\nurl = \"sqlite://user:secret@x\"",
            "relay.url: must",
        ),
        ("[relay]\ntable = \"a.b.c\"", "relay.table"),
        ("[relay]\ntable = \"a\\\"b\"", "relay.table"),
        ("[relay]\nkey = \"\"", "relay.key"),
        ("[relay]\nbatch = 0", "relay.batch"),
        ("[relay]\nconnections = 65", "relay.connections"),
        ("[relay]\nsent = \"keep\"", "sent"),
        ("[sink]\nurl = \"sqlite://user:secret@x\"", "sink.url: must"),
        ("[sink]\nstate = \"a b\"", "sink.state"),
        ("[sink]\nstate = \"t_count\"", "sink.counts: t_count"),
        ("[sink]\nhold_seconds = 0", "sink.hold_seconds"),
        (
            "[sink]\ncounts = [{ etype = \"note\", table = \"a\" }, { etype = \"note\", table = \"b\" }]",
            "sink.counts: two",
        ),
        (
            "[sink]\nurl = \"mysql://x\"\ncounts = [{ etype = \"user\", table = \"t\" }]",
            "sink.counts",
        ),
        (
            "[sink]\nurl = \"mysql://x\"\ndetails = [{ etype = \"note\", metric = \"read\", table = \"t\" }]",
            "sink.details: read",
        ),
        (
            "[sink]\nurl = \"mysql://x\"\ndetails = [{ etype = \"other\", metric = \"like\", table = \"t\" }]",
            "sink.details: like",
        ),
        ("[facts]\nshards = 0", "facts.shards"),
        ("[facts]\ndays = 0", "facts.days"),
        ("[facts]\ndays = 101", "facts.days"),
        (
            "[metrics.a]\nnature = \"once\"\ncount = \"now\"\nfacts = \"set\"",
            "facts",
        ),
        (
            "[metrics.a]\nnature = \"repeatable\"\ncount = \"now\"\nfacts = \"rbm\"",
            "metrics.a.facts",
        ),
        ("[entities]\nuser = \"v1\"", "entities.user"),
        ("[entities]\nnote = \"a:b\"", "note"),
        ("[metrics.a]\nnature = \"twice\"\ncount = \"now\"", "nature"),
        (
            "[metrics.a]\nnature = \"once\"\ncount = \"now\"\naliases = [\"a\"]",
            "a is the name of two metrics",
        ),
        (
            "[metrics.a]\nnature = \"once\"\ncount = \"now\"\nentities = [\"x\"]",
            "metrics.a.entities",
        ),
        (
            "[metrics.a]\nnature = \"once\"\ncount = \"never\"\nusers = [{ counter = \"posts\", of = \"target\" }]",
            "metrics.a.users",
        ),
    ] {
        let error = rejection(text);
        assert!(error.contains(setting), "{text}: {error}");
        assert!(!error.contains("secret"), "{text}: {error}");
    }
}

#[test]
fn other_machines_need_a_token_or_permission() {
    let token = "[auth]\ntokens = [{ token = \"a-long-enough-token\", rights = [\"read\"] }]";
    let jwt = "[auth.jwt]\njwks_file = \"keys.json\"";
    for (address, auth) in [
        ("0.0.0.0:80", token),
        ("10.1.2.3:80", jwt),
        ("[::]:80", "[auth]\nallow_anonymous = true"),
        ("127.1.2.3:80", ""),
        ("[::1]:80", ""),
        ("[::ffff:127.0.0.1]:80", ""),
    ] {
        for section in ["http", "consumer", "relay", "sink"] {
            let text = format!("[{section}]\nlisten = \"{address}\"\n{auth}");
            assert!(Config::parse(&text).is_ok(), "{text}");
        }
    }
}

#[test]
fn the_password_of_sentinels_is_not_printed() {
    let text = "[redis.sentinel]\naddresses = [\"a:1\"]\npassword = \"sesame\"";
    let config = Config::parse(text).expect("valid");
    assert_eq!(config.redis.sentinel.password.expose(), "sesame");
    assert!(!format!("{config:?}").contains("sesame"));
}

#[test]
fn the_url_of_a_database_is_not_printed() {
    let text = "[relay]\nurl = \"mysql://user:sesame@host/shop\"";
    let config = Config::parse(text).expect("valid");
    assert_eq!(config.relay.url.kind(), Some(DatabaseKind::MySql));
    assert!(config.relay.url.expose().contains("sesame"));
    assert!(!format!("{config:?}").contains("sesame"));
}

#[test]
fn tables_of_a_sink_replace_those_of_the_defaults() {
    let default = Config::parse("").expect("valid").sink;
    assert_eq!(default.details[0].table, "t_praise_detail");
    // Without a sink it does not matter that there are no notes.
    Config::parse("[entities]\nphoto = \"v1\"").expect("valid");
    let text = "[sink]\nurl = \"postgres://x\"\ndetails = [{ etype = \"user\", metric = \"follow\", table = \"follows\" }]\ncounts = []";
    let sink = Config::parse(text).expect("valid").sink;
    assert_eq!((sink.details.len(), sink.counts.len()), (1, 0));
    assert_eq!(sink.details[0].table, "follows");
}
