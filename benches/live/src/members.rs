//! Bytes of a member of a set: every size, every distribution, however it came to be.

use crate::Result;
use crate::dataset::{Sender, set_key};
use crate::distribution::{Distribution, FIRST_ID, FIRST_SET};
use crate::members_report::{Row, section};
use crate::memory::Scales;
use crate::options::Options;
use crate::report::Section;
use crate::server::{Server, Workdir};
use crate::setform::SetForm;

/// What `--only` calls it.
pub const NAME: &str = "members";
/// Its heading.
pub const TITLE: &str = "Bytes per member";

/// Members of a set.
const SIZES: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// An intset is filled up to here only: beyond, insertions take too long for anyone to raise it that far.
const MOST_INTS: u64 = 100_000;
/// A bitmap takes room for every id that there is, so few of them tell enough.
const MOST_BITMAPS: u64 = 20;
/// Dense ids are any of so many.
pub const DENSE: u64 = 2_000_000;

/// How a set came to be what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Members came in scattered order.
    Scattered,
    /// The smallest came first.
    Ascending,
    /// The largest came first.
    Descending,
    /// They came in scattered order, and every second by rank was removed in scattered order.
    Halved,
}

/// Weighs everything and describes it.
pub fn measure(options: &Options) -> Result<Section> {
    let sizes = SIZES
        .into_iter()
        .filter(|&s| s <= options.scale.weighed_members);
    let mut rows = Vec::new();
    for distribution in [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(DENSE),
    ] {
        rows.extend(sizes.clone().map(|size| Row::new(distribution, size)));
    }
    for form in [
        SetForm::Rbm,
        SetForm::Set,
        SetForm::Ints,
        SetForm::Bitmap,
        SetForm::Roaring,
        SetForm::Cuckoo,
    ] {
        if form.available(options) {
            weigh_form(form, &mut rows, options)?;
        }
    }
    Ok(section(&rows, options.scale.weighed_members))
}

/// Fills a server of one form with what each row asks, one row after the other.
fn weigh_form(form: SetForm, rows: &mut [Row], options: &Options) -> Result<()> {
    let dir = Workdir::new()?;
    let server = Server::start(options, &dir, form.module(options))?;
    form.configure(&mut server.control()?)?;
    let warm_up = Filling::new(form, Fill::Scattered, Distribution::Dense(DENSE), 10, 1_000);
    warm_up.run(&server)?;
    let scales = Scales::balance(&server)?;
    for row in rows {
        for fill in fills(form, row.distribution, row.size) {
            let sets = match form {
                SetForm::Bitmap => MOST_BITMAPS,
                _ => u64::MAX,
            };
            let sets = sets.min(options.scale.weighed_members / row.size);
            let left = Filling::new(form, fill, row.distribution, sets, row.size).run(&server)?;
            row.add(form, fill, scales.weigh()? / left as f64);
            scales.clear()?;
        }
    }
    Ok(())
}

/// What is worth weighing: all there is of ours, of the others what their size depends on.
fn fills(form: SetForm, distribution: Distribution, size: u64) -> Vec<Fill> {
    let dense = matches!(distribution, Distribution::Dense(_));
    match form {
        SetForm::Rbm if size == 1 => vec![Fill::Scattered],
        SetForm::Rbm => vec![
            Fill::Scattered,
            Fill::Ascending,
            Fill::Descending,
            Fill::Halved,
        ],
        // Held against ours after the same removals while both are small.
        SetForm::Set if (2..=100).contains(&size) => vec![Fill::Scattered, Fill::Halved],
        SetForm::Ints if size > MOST_INTS => vec![],
        SetForm::Ints => vec![Fill::Ascending],
        SetForm::Bitmap if !dense => vec![],
        _ => vec![Fill::Scattered],
    }
}

/// Sets to be filled.
struct Filling {
    form: SetForm,
    fill: Fill,
    /// The members of each set, in the order in which they are added.
    sets: Vec<Vec<u64>>,
}

impl Filling {
    fn new(form: SetForm, fill: Fill, distribution: Distribution, sets: u64, size: u64) -> Filling {
        // A bitmap begins at its smallest id, as one would have it.
        let base = if form == SetForm::Bitmap { FIRST_ID } else { 0 };
        let members = |set: u64| {
            let range = set * size..(set + 1) * size;
            let mut members: Vec<u64> = range.map(|i| distribution.nth(i) - base).collect();
            match fill {
                Fill::Ascending => members.sort_unstable(),
                Fill::Descending => members.sort_unstable_by(|a, b| b.cmp(a)),
                Fill::Scattered | Fill::Halved => {}
            }
            members
        };
        Filling {
            form,
            fill,
            sets: (0..sets).map(members).collect(),
        }
    }

    /// Adds members one at a time, to each set in turn, as they come in life. Returns how many are there in the end.
    fn run(&self, server: &Server) -> Result<u64> {
        let mut sender = Sender::open(server)?;
        let size = self.sets.first().map_or(0, Vec::len);
        for (set, members) in self.sets.iter().enumerate() {
            let key = set_key(FIRST_SET + set as u64);
            // Eight is the least that a cuckoo filter takes.
            if let Some(words) = self.form.reserving(&key, members.len().max(8) as u64) {
                sender.push(&words)?;
            }
        }
        for place in 0..size {
            for (set, members) in self.sets.iter().enumerate() {
                let key = set_key(FIRST_SET + set as u64);
                let command = self.form.add(&key, &members[place].to_string());
                sender.push(&command.split(' ').collect::<Vec<_>>())?;
            }
        }
        let mut left = (self.sets.len() * size) as u64;
        if self.fill == Fill::Halved {
            for (set, members) in self.sets.iter().enumerate() {
                let key = set_key(FIRST_SET + set as u64);
                for member in every_second(members) {
                    let command = self.form.remove(&key, &member.to_string());
                    sender.push(&command.split(' ').collect::<Vec<_>>())?;
                    left -= 1;
                }
            }
        }
        sender.finish()?;
        Ok(left)
    }
}

/// Every second member by rank, in the order in which they were added.
fn every_second(members: &[u64]) -> impl Iterator<Item = u64> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    let goes = move |member: &u64| sorted.binary_search(member).is_ok_and(|rank| rank % 2 == 1);
    members.iter().copied().filter(goes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_members_go_by_rank() {
        let gone: Vec<u64> = every_second(&[50, 10, 30, 20, 40]).collect();
        assert_eq!(gone, [20, 40]);
    }

    #[test]
    fn every_fill_has_the_same_members() {
        let fill = |fill| {
            let filling = Filling::new(SetForm::Set, fill, Distribution::Sparse, 2, 50);
            let mut members = filling.sets[1].clone();
            let first = members[0];
            members.sort_unstable();
            (first == members[0], first == members[49], members)
        };
        let ascending = fill(Fill::Ascending);
        let descending = fill(Fill::Descending);
        assert!(ascending.0 && descending.1);
        assert_eq!(ascending.2, descending.2);
        assert_eq!(ascending.2, fill(Fill::Scattered).2);
    }

    #[test]
    fn an_intset_is_never_filled_beyond_reason() {
        assert!(fills(SetForm::Ints, Distribution::Sparse, 1_000_000).is_empty());
        assert!(fills(SetForm::Bitmap, Distribution::Snowflake, 10).is_empty());
        assert_eq!(fills(SetForm::Rbm, Distribution::Snowflake, 10).len(), 4);
    }
}
