//! Settings in environment variables.
//!
//! `COUNTD_REDIS__URL` is `redis.url`, `COUNTD_METRICS` the whole table `metrics`. Lists and tables are JSON. The value of a variable with
//! `_FILE` appended is in the file that it names.

use super::error::{ConfigError, invalid};
use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The prefix of all variables, in lower case.
const PREFIX: &str = "countd_";
/// The end of a variable that names a file, in lower case.
const FILE_SUFFIX: &str = "_file";
/// A variable with the name of a section that is not that section: the level of log lines.
const NO_SECTION: &str = "log";

/// The settings in environment variables.
#[derive(Clone)]
pub(super) struct Environment {
    values: Dict,
    /// The tables that a variable has as a whole.
    whole: Vec<String>,
}

/// A variable that is a setting.
struct Variable {
    name: String,
    /// Whether its value is in a file.
    is_file: bool,
}

impl Environment {
    /// Reads the variables that are settings. `defaults` has all settings, except those in tables with arbitrary keys.
    ///
    /// # Errors
    /// A value or a file cannot be read, or two variables have the same setting.
    pub fn read(
        defaults: &Dict,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Environment, ConfigError> {
        // Tables come before their parts.
        let mut found: BTreeMap<Vec<String>, (Variable, OsString)> = BTreeMap::new();
        for (name, value) in variables {
            let Some(name) = name.to_str() else {
                continue;
            };
            let Some((path, is_file)) = setting_of(name, defaults) else {
                continue;
            };
            let name = name.to_owned();
            if let Some((other, _)) = found.get(&path) {
                let problem = format!("is set by {} and by {name}", other.name);
                return Err(invalid(path.join("."), problem));
            }
            found.insert(path, (Variable { name, is_file }, value));
        }
        let mut environment = Environment {
            values: Dict::new(),
            whole: Vec::new(),
        };
        for (path, (variable, value)) in found {
            let text = variable.text(value)?;
            let value = parse(&text, &path, find(defaults, &path));
            if let ([table], Value::Dict(..)) = (path.as_slice(), &value) {
                environment.whole.push(table.clone());
            }
            insert(&mut environment.values, &path, value);
        }
        Ok(environment)
    }

    /// Whether a variable has this table as a whole.
    pub fn replaces(&self, table: &str) -> bool {
        self.whole.iter().any(|whole| whole == table)
    }
}

impl Provider for Environment {
    fn metadata(&self) -> Metadata {
        Metadata::named("the environment").interpolater(|_: &Profile, keys: &[&str]| {
            format!("{PREFIX}{}", keys.join("__")).to_ascii_uppercase()
        })
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

impl Variable {
    /// The text of the value, or of the file that it names, without line ends at its end.
    fn text(&self, value: OsString) -> Result<String, ConfigError> {
        if self.is_file {
            let text = std::fs::read_to_string(&value);
            let text = text.map_err(|error| ConfigError::NoSecret {
                variable: self.name.clone(),
                file: value.to_string_lossy().into_owned(),
                error,
            })?;
            return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
        }
        value
            .into_string()
            .map_err(|_| invalid(self.name.as_str(), "must be UTF-8"))
    }
}

/// The setting of a variable, and whether its value is in a file. `None` if it is no setting.
fn setting_of(name: &str, defaults: &Dict) -> Option<(Vec<String>, bool)> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix(PREFIX)?;
    let path = |name: &str| -> Vec<String> { name.split("__").map(str::to_owned).collect() };
    let is_setting = |path: &[String]| match path {
        [section] => section != NO_SECTION && defaults.contains_key(section),
        _ => true,
    };
    let whole = path(name);
    let of_file = name.strip_suffix(FILE_SUFFIX).map(path);
    match of_file {
        // Such as `http.tls.cert_file`, which is itself a setting.
        Some(path) if find(defaults, &whole).is_none() && is_setting(&path) => Some((path, true)),
        _ => is_setting(&whole).then_some((whole, false)),
    }
}

fn find<'a>(values: &'a Dict, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = values.get(first)?;
    match (rest, value) {
        ([], _) => Some(value),
        (_, Value::Dict(_, values)) => find(values, rest),
        _ => None,
    }
}

fn insert(values: &mut Dict, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        values.insert(first.clone(), value);
        return;
    }
    let inner = values
        .entry(first.clone())
        .or_insert_with(|| Value::from(Dict::new()));
    if !matches!(inner, Value::Dict(..)) {
        *inner = Value::from(Dict::new());
    }
    if let Value::Dict(_, inner) = inner {
        insert(inner, rest, value);
    }
}

/// The value of a setting: JSON if it is a list, a table or a quoted text, and otherwise a number, `true`, `false` or a text. If the default is a
/// text, so is every other value, even one of digits.
fn parse(text: &str, path: &[String], default: Option<&Value>) -> Value {
    let is_text = matches!(default, Some(Value::String(..)));
    // An entity type has the name of its schema, or a table.
    let can_be_table = !is_text || path.first().is_some_and(|section| section == "entities");
    let is_json = match text.trim_start().bytes().next() {
        Some(b'"') => true,
        Some(b'{' | b'[') => can_be_table,
        _ => false,
    };
    if is_json
        && let Ok(json) = serde_json::from_str::<serde_json::Value>(text)
        && let Ok(value) = Value::serialize(json)
    {
        return value;
    }
    match (is_text, text.parse()) {
        (false, Ok(value)) => value,
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigError, DEFAULTS};
    use super::*;
    use figment::Figment;
    use figment::providers::{Format, Toml};

    fn defaults() -> Dict {
        let defaults = Figment::from(Toml::string(DEFAULTS));
        defaults.extract().expect("the defaults are valid")
    }

    fn read(variables: &[(&str, &str)]) -> Result<Environment, ConfigError> {
        let pairs = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Environment::read(&defaults(), pairs)
    }

    fn load(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let pairs = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Config::load_with(None, pairs)
    }

    /// All settings and tables of the defaults, with their names.
    fn all(values: &Dict, path: &[String], found: &mut Vec<(Vec<String>, Value)>) {
        for (name, value) in values {
            let path = [path, std::slice::from_ref(name)].concat();
            found.push((path.clone(), value.clone()));
            if let Value::Dict(_, values) = value {
                all(values, &path, found);
            }
        }
    }

    fn all_settings() -> Vec<(Vec<String>, Value)> {
        let mut found = Vec::new();
        all(&defaults(), &[], &mut found);
        // COUNTD_LOG is the level of log lines.
        found.retain(|(path, _)| path.as_slice() != [NO_SECTION]);
        found
    }

    fn variable(path: &[String]) -> String {
        format!("{PREFIX}{}", path.join("__")).to_ascii_uppercase()
    }

    fn json(value: &Value) -> String {
        serde_json::to_string(value).expect("a value")
    }

    /// Another value of the same type.
    fn changed(value: &Value) -> Value {
        match value {
            Value::String(_, text) => Value::from(format!("{text}7")),
            Value::Bool(_, is_set) => Value::from(!is_set),
            Value::Num(..) => Value::from(7),
            Value::Array(..) => Value::from(vec![Value::from("a"), Value::from("b")]),
            value => value.clone(),
        }
    }

    #[test]
    fn every_setting_can_be_in_the_environment() {
        let settings = all_settings();
        assert!(settings.len() > 150, "{}", settings.len());
        for (path, default) in &settings {
            let name = variable(path);
            // A text as it is, everything else as JSON, and everything as JSON.
            let plain = match default {
                Value::String(_, text) => text.clone(),
                other => json(other),
            };
            for text in [plain, json(default)] {
                let loaded = load(&[(name.as_str(), text.as_str())]);
                assert!(loaded.is_ok(), "{name}={text}: {loaded:?}");
            }
            let other = changed(default);
            let text = match &other {
                Value::String(_, text) => text.clone(),
                other => json(other),
            };
            let read = read(&[(name.as_str(), text.as_str())])
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let found = find(&read.values, path);
            assert_eq!(found.map(json), Some(json(&other)), "{name}={text}");
        }
    }

    #[test]
    fn texts_of_digits_are_texts_and_numbers_are_numbers() {
        let variables = [
            ("COUNTD_REDIS__SENTINEL__PASSWORD", "123456"),
            ("COUNTD_REDIS__SENTINEL__MASTER", "true"),
            ("COUNTD_REDIS__SENTINEL__USERNAME", "[a"),
            ("COUNTD_CONSUMER__BATCH", "12"),
            ("countd_reconcile__min_percent", "2"),
            ("COUNTD_CHANGES__ENABLED", "true"),
            ("COUNTD_CONFIG", "/nowhere"),
            ("COUNTD_LOG", "debug"),
            ("COUNTD_TOKEN", "x"),
            ("OTHER__BATCH", "1"),
        ];
        let config = load(&variables).expect("valid");
        assert_eq!(config.redis.sentinel.password.expose(), "123456");
        let sentinel = &config.redis.sentinel;
        assert_eq!(
            (sentinel.master.as_str(), sentinel.username.as_str()),
            ("true", "[a")
        );
        assert_eq!(config.consumer.batch, 12);
        assert!(config.changes.enabled && config.reconcile.min_percent == 2.0);
    }

    #[test]
    fn tables_of_the_environment_replace_those_of_the_file() {
        let file = std::env::temp_dir().join(format!("countd-env-{}.toml", std::process::id()));
        std::fs::write(&file, "[entities]\nphoto = \"v1\"\n").expect("written");
        let load = |variables: &[(&str, &str)]| {
            let pairs = variables
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()));
            let config = Config::load_with(Some(&file), pairs).expect("valid");
            let types = config
                .entities
                .keys()
                .map(|etype| etype.as_str().to_owned());
            (types.collect::<Vec<_>>(), config)
        };
        assert_eq!(load(&[]).0, ["photo"]);
        let storage = r#"{"film": {"schema": "v2", "storage": "object"}}"#;
        assert_eq!(load(&[("COUNTD_ENTITIES", storage)]).0, ["film"]);
        let more = [("COUNTD_ENTITIES__FILM", "v2")];
        assert_eq!(load(&more).0, ["film", "photo"]);
        let metrics = r#"{"join": {"nature": "once", "count": "batched"}}"#;
        let (_, config) = load(&[
            ("COUNTD_METRICS", metrics),
            ("COUNTD_METRICS__JOIN__COUNT", "now"),
        ]);
        assert!(config.metrics.get("like").is_none());
        let (_, join) = config.metrics.get("join").expect("a metric");
        assert_eq!(join.count, super::super::Count::Now);
        std::fs::remove_file(&file).expect("removed");
    }

    #[test]
    fn secrets_can_be_in_files() {
        let dir = std::env::temp_dir().join(format!("countd-secrets-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let file = |name: &str, text: &str| {
            let file = dir.join(name);
            std::fs::write(&file, text).expect("written");
            file.to_str().expect("UTF-8").to_owned()
        };
        let url = file("url", "redis://:secret@host/\n");
        let tokens = r#"[{"name": "feed", "token": "a-long-enough-token", "rights": ["read"]}]"#;
        let tokens = file("tokens", tokens);
        let relay = file("relay", "postgres://u:p@host/shop\r\n");
        let types = file("types", r#"{"film": "v1"}"#);
        let config = load(&[
            ("COUNTD_REDIS__URL_FILE", &url),
            ("COUNTD_AUTH__TOKENS_FILE", &tokens),
            ("COUNTD_RELAY__URL_FILE", &relay),
            ("COUNTD_ENTITIES_FILE", &types),
        ]);
        let config = config.expect("valid");
        assert_eq!(config.redis.url, "redis://:secret@host/");
        assert_eq!(config.relay.url.expose(), "postgres://u:p@host/shop");
        assert_eq!(config.auth.tokens[0].token, "a-long-enough-token");
        assert_eq!(config.entities.len(), 1);
        let missing = dir.join("missing");
        let missing = missing.to_str().expect("UTF-8");
        for (variables, problem) in [
            (
                vec![("COUNTD_REDIS__URL_FILE", missing)],
                "COUNTD_REDIS__URL_FILE: ",
            ),
            (
                vec![("COUNTD_AUTH__TOKENS_FILE", missing)],
                "auth.tokens_file: ",
            ),
            (
                vec![("COUNTD_AUTH__TOKENS_FILE", url.as_str())],
                "line 1, column 1",
            ),
            (
                vec![
                    ("COUNTD_REDIS__URL", "redis://x/"),
                    ("COUNTD_REDIS__URL_FILE", url.as_str()),
                ],
                "redis.url: is set by COUNTD_REDIS__URL",
            ),
        ] {
            let error = load(&variables).expect_err("refused").to_string();
            assert!(
                error.contains(problem) && !error.contains("secret@"),
                "{error}"
            );
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
