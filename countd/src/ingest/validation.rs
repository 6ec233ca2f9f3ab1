//! What an action names: its metric, the type of its entity and the author.

use super::action::Action;
use super::actions::Actions;
use crate::domain::config::{Metric, NamesAuthor, Nature, USER};
use crate::domain::error::Problem;
use crate::domain::ids::{Id, Name};
use crate::domain::op::Op;
use crate::domain::text::shorten;

impl Actions {
    /// The metric that a request names, and the direction of the action.
    pub(super) fn resolve_metric(
        &self,
        requested: &str,
        op: Option<Op>,
    ) -> Result<(&Name, &Metric, Op), Problem> {
        let unknown = match self.catalog.metric(requested) {
            Ok((name, metric)) => return Ok((name, metric, op.unwrap_or(Op::Add))),
            Err(unknown) => unknown,
        };
        let (name, metric) = match requested.strip_prefix("un") {
            Some(base) => self.catalog.metric(base).map_err(|_| unknown)?,
            None => return Err(unknown),
        };
        // A repeatable metric has no `un` form: `unread` is more likely an unconfigured metric than the removal of a read.
        if metric.nature == Nature::Repeatable {
            let problem = format!("{name} is repeatable: undo it with \"op\": \"remove\"");
            return Err(Problem::Unprocessable(problem));
        }
        if op.is_some() {
            let problem = format!("op: not allowed with {}", shorten(requested));
            return Err(Problem::Unprocessable(problem));
        }
        Ok((name, metric, Op::Remove))
    }

    /// The author that the action names.
    pub(super) fn author<'a>(
        &self,
        metric: &Metric,
        op: Op,
        action: &'a Action,
        etype: &Name,
    ) -> Result<Option<&'a Id>, Problem> {
        if !self.authors.are_registered() {
            return Ok(action.author.as_ref());
        }
        let refuse = |problem: &str| Err(Problem::Unprocessable(problem.to_owned()));
        if etype.as_str() == USER {
            return match action.author {
                Some(_) => refuse("author: a user has no author"),
                None => Ok(None),
            };
        }
        let actor = match (metric.names_author, op) {
            (Some(NamesAuthor::Actor), Op::Add) => Some(&action.uid),
            _ => None,
        };
        match (&action.author, actor) {
            (Some(author), Some(actor)) if author != actor => {
                refuse("author: the author of the entity is the user who acts")
            }
            (author, actor) => Ok(author.as_ref().or(actor)),
        }
    }

    /// The type of the entity that an action applies to.
    pub(super) fn entity_type(
        name: &Name,
        metric: &Metric,
        action: &Action,
    ) -> Result<Name, Problem> {
        match (&action.etype, metric.entities.as_deref()) {
            (Some(etype), _) => Ok(etype.clone()),
            (None, Some([only])) => Ok(only.clone()),
            _ => Err(Problem::Unprocessable(format!(
                "etype: required, because {name} applies to several entity types"
            ))),
        }
    }
}
