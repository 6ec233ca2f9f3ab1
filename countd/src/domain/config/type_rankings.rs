//! The rankings of each entity type, and the validation of rankings.

use super::error::{ConfigError, invalid};
use super::load::Config;
use super::metrics::Metric;
use super::ranks::{MAX_CACHE_MS, MAX_TOP, MAX_WEIGHT, MIN_HALF_LIFE, Ranking};
use crate::domain::ids::Name;
use std::collections::BTreeSet;

/// A ranking of the entities of a type.
#[derive(Clone, Debug)]
pub struct TypeRanking<'a> {
    /// The name of the ranking.
    pub name: &'a Name,
    /// The entity type.
    pub etype: &'a Name,
    /// Its settings.
    pub ranking: &'a Ranking,
    /// The metrics that the type has, each with its weight.
    pub weights: Vec<(&'a Name, i64)>,
}

impl TypeRanking<'_> {
    /// What the scores depend on, as a text.
    pub fn definition(&self) -> String {
        let weights = self.weights.iter();
        let weights: Vec<String> = weights.map(|(m, weight)| format!("{m}={weight}")).collect();
        let (window, half_life) = (self.ranking.window(), self.ranking.half_life());
        let weights = weights.join(",");
        format!("{weights};{window};{half_life};{}", self.ranking.top())
    }
}

impl Config {
    /// The rankings of each type.
    pub fn rankings(&self) -> impl Iterator<Item = TypeRanking<'_>> {
        let rankings = self.ranks.rankings.iter();
        rankings.flat_map(move |(name, ranking)| {
            let types = self.entities.keys();
            types.filter_map(move |etype| {
                let is_listed = ranking.entities.as_ref().is_none_or(|e| e.contains(etype));
                let weights = self.weights(ranking);
                let weights = weights.filter(|(_, metric, _)| metric.applies_to(etype));
                let weights: Vec<_> = weights.map(|(name, _, weight)| (name, weight)).collect();
                (is_listed && !weights.is_empty()).then_some(TypeRanking {
                    name,
                    etype,
                    ranking,
                    weights,
                })
            })
        })
    }

    /// Whether a metric has a weight in a ranking of a type.
    pub fn is_ranked(&self, metric: &Name, etype: &Name) -> bool {
        !self.ranks.is_empty()
            && self
                .rankings()
                .any(|of| of.etype == etype && of.weights.iter().any(|(name, _)| *name == metric))
    }

    /// The metrics of a ranking, with their weights.
    fn weights<'a>(
        &'a self,
        ranking: &'a Ranking,
    ) -> impl Iterator<Item = (&'a Name, &'a Metric, i64)> {
        let weights = ranking.weights.iter();
        weights.filter_map(|(metric, weight)| {
            let (name, metric) = self.metrics.get(metric.as_str())?;
            Some((name, metric, *weight))
        })
    }

    pub(super) fn validate_ranks(&self) -> Result<(), ConfigError> {
        if self.ranks.cache_ms > MAX_CACHE_MS {
            let problem = format!("must be at most {MAX_CACHE_MS}");
            return Err(invalid("rank.cache_ms", problem));
        }
        for (name, ranking) in &self.ranks.rankings {
            let setting = |field: &str| format!("rank.{name}.{field}");
            self.validate_weights(name, ranking)?;
            self.validate_days_of(name, ranking)?;
            if !(1..=MAX_TOP).contains(&ranking.top()) {
                return Err(invalid(setting("top"), format!("must be 1 to {MAX_TOP}")));
            }
            for etype in ranking.entities.iter().flatten() {
                if !self.entities.contains_key(etype) {
                    let problem = format!("there is no entity type {etype}");
                    return Err(invalid(setting("entities"), problem));
                }
                let has_metric = |(_, metric, _): (_, &Metric, _)| metric.applies_to(etype);
                if !self.weights(ranking).any(has_metric) {
                    let problem = format!("entity type {etype} has none of the metrics");
                    return Err(invalid(setting("entities"), problem));
                }
            }
        }
        Ok(())
    }

    fn validate_weights(&self, name: &Name, ranking: &Ranking) -> Result<(), ConfigError> {
        let setting = format!("rank.{name}.weights");
        if ranking.weights.is_empty() {
            return Err(invalid(setting, "at least one metric is required"));
        }
        let mut metrics = BTreeSet::new();
        for (metric, weight) in &ranking.weights {
            let setting = format!("{setting}.{metric}");
            let Some((name, settings)) = self.metrics.get(metric.as_str()) else {
                return Err(invalid(setting, format!("there is no metric {metric}")));
            };
            if !settings.daily {
                let problem = format!("the metric {name} requires daily = true");
                return Err(invalid(setting, problem));
            }
            if *weight == 0 || weight.abs() > MAX_WEIGHT {
                let problem = format!("must be -{MAX_WEIGHT} to {MAX_WEIGHT}, and not 0");
                return Err(invalid(setting, problem));
            }
            if !metrics.insert(name) {
                let problem = format!("the metric {name} has two weights");
                return Err(invalid(setting, problem));
            }
        }
        Ok(())
    }

    fn validate_days_of(&self, name: &Name, ranking: &Ranking) -> Result<(), ConfigError> {
        let setting = |field: &str| format!("rank.{name}.{field}");
        let field = match (ranking.window_days, ranking.half_life_hours) {
            (Some(0), None) => return Err(invalid(setting("window_days"), "must be at least 1")),
            (Some(_), None) => "window_days",
            (None, Some(hours)) if hours < MIN_HALF_LIFE => {
                let problem = format!("must be at least {MIN_HALF_LIFE}");
                return Err(invalid(setting("half_life_hours"), problem));
            }
            (None, Some(_)) => "half_life_hours",
            _ => {
                let problem = "exactly one of window_days and half_life_hours is required";
                return Err(invalid(format!("rank.{name}"), problem));
            }
        };
        let (window, keep) = (ranking.window(), self.days.keep);
        if window > keep.into() {
            let problem = format!("the ranking has {window} days, more than days.keep ({keep})");
            return Err(invalid(setting(field), problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "[metrics.read]\nnature = \"repeatable\"\ncount = \"batched\"\naliases = [\"view\"]\ndaily = true\n\
        [metrics.like]\nnature = \"once\"\ncount = \"now\"\nentities = [\"note\"]\ndaily = true\n\
        [metrics.fav]\nnature = \"once\"\ncount = \"now\"\n";

    fn parse(ranking: &str) -> Result<Config, String> {
        let entities = "[entities.note]\nschema = \"v1\"\n[entities.item]\nschema = \"v2\"\n";
        let text = format!("{METRICS}{entities}[rank.hot]\n{ranking}");
        Config::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_ranking_has_the_types_that_have_its_metrics() {
        let config = parse("weights = { view = 1, like = 5 }\nwindow_days = 7").expect("valid");
        let found: Vec<String> = config
            .rankings()
            .map(|of| format!("{} {}", of.etype, of.definition()))
            .collect();
        assert_eq!(
            found,
            ["item read=1;7;0;1000", "note like=5,read=1;7;0;1000"]
        );
        let name = |text: &str| Name::new(text).expect("a name");
        assert!(config.is_ranked(&name("like"), &name("note")));
        assert!(!config.is_ranked(&name("like"), &name("item")));
        assert!(!config.is_ranked(&name("fav"), &name("note")));
        let config =
            parse("weights = { read = -2 }\nhalf_life_hours = 60\ntop = 5\nentities = [\"item\"]");
        let config = config.expect("valid");
        let of = config.rankings().next().expect("a ranking");
        assert_eq!((of.ranking.window(), of.ranking.half_life()), (25, 60));
        assert_eq!((of.ranking.kept(), config.rankings().count()), (20, 1));
    }

    #[test]
    fn errors_name_the_setting() {
        for (ranking, setting) in [
            (
                "weights = { like = 1, fav = 1 }\nwindow_days = 7",
                "rank.hot.weights.fav: the metric fav requires daily = true",
            ),
            (
                "weights = { nothing = 1 }\nwindow_days = 7",
                "rank.hot.weights.nothing",
            ),
            (
                "weights = { read = 0 }\nwindow_days = 7",
                "rank.hot.weights.read",
            ),
            (
                "weights = { read = 1, view = 2 }\nwindow_days = 7",
                "rank.hot.weights.view",
            ),
            ("weights = {}\nwindow_days = 7", "rank.hot.weights"),
            ("weights = { read = 1 }", "rank.hot"),
            (
                "weights = { read = 1 }\nwindow_days = 7\nhalf_life_hours = 48",
                "rank.hot",
            ),
            (
                "weights = { read = 1 }\nwindow_days = 0",
                "rank.hot.window_days",
            ),
            (
                "weights = { read = 1 }\nwindow_days = 31",
                "rank.hot.window_days",
            ),
            (
                "weights = { read = 1 }\nhalf_life_hours = 23",
                "rank.hot.half_life_hours",
            ),
            (
                "weights = { read = 1 }\nhalf_life_hours = 73",
                "rank.hot.half_life_hours",
            ),
            (
                "weights = { read = 1 }\nwindow_days = 7\ntop = 0",
                "rank.hot.top",
            ),
            (
                "weights = { read = 1 }\nwindow_days = 7\nentities = [\"user\"]",
                "rank.hot.entities",
            ),
            (
                "weights = { like = 1 }\nwindow_days = 7\nentities = [\"item\"]",
                "rank.hot.entities",
            ),
            (
                "weights = { read = 1 }\nwindow_days = 7\nother = 1",
                "other",
            ),
            (
                "weights = { read = 1 }\nwindow_days = 7\n[rank]\nother = 1",
                "rank",
            ),
        ] {
            let error = parse(ranking).expect_err(ranking);
            assert!(error.contains(setting), "{ranking}: {error}");
        }
    }
}
