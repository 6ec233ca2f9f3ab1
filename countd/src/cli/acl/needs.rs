//! The commands that countd runs, each with a key of every kind that it runs it on.

use super::Roles;
use super::lines::*;
use countd::domain::config::{Config, Count, FactKind, Metric};
use countd::domain::ids::{Entity, Id, Name};
use countd::domain::keys::Keys;
use countd::domain::op::Op;
use countd::redis::script::CounterBackend;

/// A command as an example.
pub struct Need {
    /// Its words.
    pub words: Vec<String>,
    /// Its key, or the first of them.
    pub key: Option<String>,
}

impl Need {
    /// Its name.
    pub fn command(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// What words in braces stand for.
type Examples = Vec<(&'static str, String)>;

/// All that a process with these roles does.
pub fn needs(config: &Config, keys: Keys, backend: CounterBackend, roles: Roles) -> Vec<Need> {
    // Which id it is does not matter; this one is one.
    let Ok(id) = Id::new("0") else {
        return Vec::new();
    };
    let mut found = Found {
        examples: common(keys, &id),
        needs: Vec::new(),
    };
    found.add(EVERYBODY);
    found.add(ON_LOGS);
    if keys.tagged() {
        found.add(ON_A_CLUSTER);
    }
    if roles.serves {
        found.add(TO_SERVE);
        if config.limits.user.rate_and_burst().is_some() {
            found.add(TO_LIMIT);
        }
    }
    if roles.consumes {
        found.add(TO_CONSUME);
        if keys.tagged() {
            found.add(TO_HAND_OVER);
        }
    }
    found.with(vec![("counters", keys.user_counters(&id))], |found| {
        found.add_if(roles.consumes, to_count(backend));
        found.add_if(roles.serves, to_read(backend));
    });
    for (etype, schema) in &config.entities {
        let entity = entity(etype, &id);
        let examples = vec![
            ("schema", keys.schema(schema)),
            ("counters", keys.counters(schema, &entity)),
        ];
        found.with(examples, |found| {
            found.add(ON_SCHEMAS);
            found.add(to_count(backend));
            found.add_if(roles.serves, to_read(backend));
            found.add_if(roles.serves, to_act(backend));
        });
    }
    for (name, metric) in config.metrics.iter() {
        for etype in etypes(config, metric) {
            facts(
                &mut found,
                (config, keys, backend, roles),
                (name, metric),
                &entity(etype, &id),
            );
        }
    }
    found.needs
}

fn entity(etype: &Name, eid: &Id) -> Entity {
    Entity {
        etype: etype.clone(),
        eid: eid.clone(),
    }
}

/// The types of entities that a metric is for.
fn etypes<'a>(config: &'a Config, metric: &'a Metric) -> Vec<&'a Name> {
    match &metric.entities {
        Some(some) => some.iter().collect(),
        None => config.entities.keys().collect(),
    }
}

/// The keys of which there is one kind each.
fn common(keys: Keys, id: &Id) -> Examples {
    let mut examples = vec![
        ("layout", keys.layout().to_owned()),
        ("consumers", keys.consumers().to_owned()),
        ("log", keys.log(0)),
        ("new", keys.new_log(0)),
        ("pos", keys.position(0)),
        ("dead", keys.dead(0)),
        ("out", keys.outbox(0)),
        ("counted", keys.counted(0, id)),
        ("limit", keys.limit(id)),
        ("days", keys.days(0)),
    ];
    if let Ok(name) = Name::new("x") {
        let dedup = keys.dedup(&name, &entity(&name, id), Op::Add.name(), id, "0");
        examples.push(("dedup", dedup));
    }
    examples
}

fn facts(
    found: &mut Found,
    (config, keys, backend, roles): (&Config, Keys, CounterBackend, Roles),
    (name, metric): (&Name, &Metric),
    entity: &Entity,
) {
    let Some(kind) = metric.fact_kind() else {
        return;
    };
    let (sets, bits) = (keys.fact_sets(name, entity), keys.fact_bits(name, entity));
    let ids = keys.facts(name, entity);
    let is_plain_set = kind == FactKind::Rbm && backend == CounterBackend::Strings;
    let mut examples = vec![
        (
            "set",
            if is_plain_set {
                ids.clone()
            } else {
                sets.key(0)
            },
        ),
        ("ids", ids),
        ("set_days", sets.key("days")),
        ("old", sets.key("old")),
        ("bits", bits.key(0)),
        ("chunks", bits.key("chunks")),
    ];
    let schema = config.schema_of(&entity.etype).flatten();
    examples.extend(schema.map(|schema| ("counters", keys.counters(schema, entity))));
    let is_counted = metric.count == Count::Now && schema.is_some();
    found.with(examples, |found| match (kind, backend) {
        (FactKind::Rbm, CounterBackend::Module) => {
            found.add_if(roles.serves, IN_RBM);
            found.add_if(roles.serves && is_counted, IN_RBM_AND_COUNTED);
        }
        (FactKind::Rbm, CounterBackend::Strings) | (FactKind::Sharded, _) => {
            found.add_if(roles.serves, IN_A_SET)
        }
        (FactKind::Bitmap, _) => found.add_if(roles.serves, IN_BITS),
        (FactKind::Daily, _) => {
            let (asking, folding) = of_folded(backend);
            for lines in [IN_A_SET, IN_DAYS, asking] {
                found.add_if(roles.serves, lines);
            }
            for lines in [TO_FOLD, folding] {
                found.add_if(roles.consumes, lines);
            }
        }
    });
}

/// What has been found, and what words in braces stand for.
struct Found {
    examples: Examples,
    needs: Vec<Need>,
}

impl Found {
    /// Does something with more examples than there are else.
    fn with(&mut self, examples: Examples, add: impl FnOnce(&mut Found)) {
        let known = self.examples.len();
        self.examples.extend(examples);
        add(self);
        self.examples.truncate(known);
    }

    fn add_if(&mut self, is_needed: bool, lines: Lines) {
        if is_needed {
            self.add(lines);
        }
    }

    fn add(&mut self, lines: Lines) {
        for line in lines {
            let mut key = None;
            let words = line.split(' ').map(|word| {
                let name = word.strip_prefix('{').and_then(|w| w.strip_suffix('}'));
                let example =
                    name.and_then(|name| self.examples.iter().find(|(known, _)| *known == name));
                match example {
                    Some((_, example)) => {
                        key.get_or_insert_with(|| example.clone());
                        example.clone()
                    }
                    None => word.to_owned(),
                }
            });
            let words = words.collect();
            self.needs.push(Need { words, key });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_in_braces_is_a_key() {
        let kinds = ["rbm", "bitmap", "daily", "sharded"];
        for (kind, tagged) in kinds.iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            let text =
                format!("[metrics.like]\nnature = \"once\"\ncount = \"now\"\nfacts = \"{kind}\"\n");
            let config = Config::parse(&text).expect("a configuration");
            for backend in [CounterBackend::Module, CounterBackend::Strings] {
                let roles = Roles {
                    serves: true,
                    consumes: true,
                };
                let needs = needs(&config, Keys::new(8, tagged), backend, roles);
                assert!(needs.len() > 40);
                for need in needs {
                    let braces = |word: &String| word.starts_with('{');
                    assert!(!need.words.iter().any(braces), "{:?}", need.words);
                }
            }
        }
    }
}
