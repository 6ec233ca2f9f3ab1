//! Rankings as arguments of scripts (rank.lua).

use crate::domain::config::TypeRanking;
use crate::domain::keys::{Keys, Partition};
use redis::Cmd;

/// The functions of scripts that compute scores.
pub const RANK: &str = include_str!("../lua/rank.lua");

/// Adds the arguments of a ranking. Returns their number.
pub fn add_ranking(
    cmd: &mut Cmd,
    (keys, partition): (Keys, Partition),
    of: &TypeRanking<'_>,
) -> usize {
    let sets = keys.ranks(of.name, of.etype, partition);
    cmd.arg(of.definition()).arg(sets.prefix).arg(sets.suffix);
    let ranking = of.ranking;
    cmd.arg(ranking.kept());
    cmd.arg(ranking.window()).arg(ranking.half_life());
    cmd.arg(of.weights.len());
    for (metric, weight) in &of.weights {
        let days = keys.history_template(metric, of.etype, partition);
        cmd.arg(*weight).arg(days.prefix).arg(days.suffix);
    }
    7 + 3 * of.weights.len()
}
