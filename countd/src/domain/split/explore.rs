//! Visits all interleavings of processes, the command that splits and merges, and the consumers.

use super::protocol::{Action, Phase, Redis, Reply, Users, Without};
use std::collections::HashSet;

/// A process and its next actions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    knows: Phase,
    actions: Vec<Action>,
    /// Whether the base has replied that the home of the user is the shard.
    at_shard: bool,
    /// Whether the fact was missing, and whether it existed, at some time since the action began.
    seen: (bool, bool),
}

/// Where a process is in a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reading {
    Begin,
    /// It has the counter of the base.
    Base(i8),
    /// It has the counter of the shard.
    Shard(i8),
    /// It has the sum.
    Sum(i8),
    /// The base has the amounts of the shard.
    Again,
}

/// A process that reads the count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reader {
    knows: Phase,
    reads: u8,
    at: Reading,
    /// Whether a fact has changed since the read began.
    is_changed: bool,
}

/// What the command remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    Nothing,
    /// It has read facts of the shard.
    Copy(Users),
    /// It has copied all of them, and read the counter of the shard.
    Absorb(i8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    redis: Redis,
    processes: [Process; 2],
    reader: Reader,
    command: Command,
    /// An earlier run, which is suspended.
    suspended: Command,
    /// The user who is erased; 0 if none is.
    erased: Users,
}

impl Process {
    fn new(actions: &[Action]) -> Process {
        Process {
            knows: Phase::Whole,
            actions: actions.to_vec(),
            at_shard: false,
            seen: (false, false),
        }
    }

    fn look(&mut self, redis: &Redis) {
        if let Some((user, _)) = self.actions.first() {
            let exists = redis.facts() & user != 0;
            self.seen = (self.seen.0 || !exists, self.seen.1 || exists);
        }
    }

    fn end(&mut self, redis: &Redis) {
        self.actions.remove(0);
        (self.at_shard, self.seen) = (false, (false, false));
        self.look(redis);
    }

    /// Performs the next step of the action. An error is a wrong answer to the client.
    fn act(&mut self, redis: &mut Redis, without: Without) -> Result<(), String> {
        let action = self.actions[0];
        let reply = match (self.at_shard, self.knows) {
            (true, _) => redis.act_shard(action),
            (_, Phase::Whole | Phase::Merged) => redis.act_whole(action),
            (_, Phase::Splitting | Phase::Split) => redis.act_base(action, without),
            (_, Phase::Merging) => Reply::Merging,
        };
        match reply {
            Reply::Done { changed } => {
                let (was_missing, existed) = self.seen;
                let is_right = changed || if action.1 { existed } else { was_missing };
                self.end(redis);
                match is_right {
                    true => Ok(()),
                    false => Err(format!("{action:?} changed nothing")),
                }
            }
            Reply::WrongType => {
                (self.knows, self.at_shard) = (redis.phase, false);
                Ok(())
            }
            Reply::Shard => {
                self.at_shard = true;
                Ok(())
            }
            // The client is told to try again later.
            Reply::Merging => {
                self.end(redis);
                Ok(())
            }
        }
    }
}

impl Reader {
    /// The next steps of a read. The order of the counters is that in which servers reply.
    fn next(&self, redis: &Redis, without: Without) -> Result<Vec<Reader>, String> {
        let to = |at| Reader { at, ..self.clone() };
        let end = |count: i8| match self.is_changed || count == redis.facts().count_ones() as i8 {
            true => Ok(vec![Reader {
                reads: self.reads - 1,
                at: Reading::Begin,
                ..self.clone()
            }]),
            false => Err(format!("a read returned {count}")),
        };
        let (base, shard) = (redis.base_count, redis.shard_count);
        match (self.at, self.knows) {
            (Reading::Begin, Phase::Whole | Phase::Merged) | (Reading::Again, _) => end(base),
            (Reading::Begin, _) => Ok(vec![to(Reading::Base(base)), to(Reading::Shard(shard))]),
            (Reading::Base(base), _) => Ok(vec![to(Reading::Sum(base + shard))]),
            (Reading::Shard(shard), _) => Ok(vec![to(Reading::Sum(base + shard))]),
            (Reading::Sum(sum), _) => match redis.is_absorbed && without != Without::Reread {
                true => Ok(vec![to(Reading::Again)]),
                false => end(sum),
            },
        }
    }
}

impl World {
    /// The next steps of the command. It may run again from its beginning: what it does next is in Redis.
    fn commands(&self, without: Without) -> Vec<World> {
        let mut next = Vec::new();
        let mut add = |change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        if self.suspended != Command::Nothing {
            add(&|world| {
                perform(&mut world.redis, world.suspended, without);
                world.suspended = Command::Nothing;
            });
        }
        if self.command != Command::Nothing {
            add(&|world| {
                perform(&mut world.redis, world.command, without);
                world.command = Command::Nothing;
            });
            // It is killed, or suspended for any time.
            add(&|world| world.command = Command::Nothing);
            if self.suspended == Command::Nothing {
                add(&|world| {
                    world.suspended = world.command;
                    world.command = Command::Nothing;
                });
            }
            return next;
        }
        let redis = &self.redis;
        let follows = self.reader.knows > Phase::Whole || without == Without::Followed;
        if redis.may_open(without) && follows {
            add(&|world| world.redis.is_open = true);
        }
        match redis.phase {
            Phase::Whole => add(&|world| world.redis.phase = Phase::Splitting),
            Phase::Splitting if redis.is_frozen => add(&|world| world.redis.phase = Phase::Split),
            Phase::Splitting => add(&|world| world.redis.freeze(without)),
            Phase::Split if redis.is_open => add(&|world| world.redis.phase = Phase::Merging),
            Phase::Split => {}
            Phase::Merging if redis.is_absorbed => add(&|world| world.redis.phase = Phase::Merged),
            Phase::Merging => {
                add(&|world| world.redis.fence_base());
                if redis.is_merging {
                    add(&|world| world.redis.fence_shard(without));
                }
                if redis.may_copy(without) {
                    let missing = redis.fenced & !redis.base.users();
                    for user in [1, 2] {
                        if missing & user != 0 {
                            add(&|world| world.command = Command::Copy(user));
                        }
                    }
                    if missing == 0 {
                        add(&|world| world.command = Command::Absorb(world.redis.shard_count));
                    }
                }
            }
            Phase::Merged => add(&|world| world.redis.delete_shard()),
        }
        next
    }

    fn next(&self, without: Without) -> Result<Vec<World>, String> {
        let mut next = self.commands(without);
        for i in 0..self.processes.len() {
            let process = &self.processes[i];
            if !process.actions.is_empty() {
                let mut world = self.clone();
                let World {
                    redis, processes, ..
                } = &mut world;
                processes[i].act(redis, without)?;
                next.push(world);
            }
            if !process.at_shard && process.knows < self.redis.phase {
                let mut world = self.clone();
                world.processes[i].knows = self.redis.phase;
                next.push(world);
            }
        }
        if self.reader.reads > 0 {
            let readers = self.reader.next(&self.redis, without)?.into_iter();
            next.extend(readers.map(|reader| World {
                reader,
                ..self.clone()
            }));
        }
        if self.reader.at == Reading::Begin && self.reader.knows < self.redis.phase {
            let mut world = self.clone();
            world.reader.knows = self.redis.phase;
            next.push(world);
        }
        if self.erased != 0 {
            let mut world = self.clone();
            world.redis.leave(self.erased);
            next.push(world);
            let mut world = self.clone();
            world.redis.forget(without);
            next.push(world);
        }
        for is_shard in [false, true] {
            let mut world = self.clone();
            let redis = &mut world.redis;
            let log = match is_shard {
                true => &mut redis.shard_log,
                false => &mut redis.base_log,
            };
            if let Some((user, adds)) = log.events.get(log.delivered) {
                log.delivered += 1;
                match adds {
                    true => redis.timeline |= user,
                    false => redis.timeline &= !user,
                }
                next.push(world);
            }
        }
        next.retain(|world| world != self);
        let events = |world: &World| {
            let redis = &world.redis;
            redis.base_log.events.len() + redis.shard_log.events.len()
        };
        for world in &mut next {
            let is_changed = events(world) != events(self);
            let World {
                redis,
                processes,
                reader,
                ..
            } = world;
            for process in processes {
                process.look(redis);
            }
            reader.is_changed = reader.at != Reading::Begin && (reader.is_changed || is_changed);
        }
        Ok(next)
    }

    /// What must be true at any time, and at the end.
    fn check(&self, is_end: bool) -> Result<(), String> {
        let redis = &self.redis;
        let facts = redis.facts();
        if i64::from(redis.count()) != i64::from(facts.count_ones()) {
            return Err("the count is not the number of facts".to_owned());
        }
        if redis.shard_count < 0 || redis.base_count < 0 {
            return Err("a counter is negative".to_owned());
        }
        let is_idle = self.processes.iter().all(|p| p.actions.is_empty());
        let is_delivered = [&redis.base_log, &redis.shard_log]
            .iter()
            .all(|log| log.delivered == log.events.len());
        if is_idle && is_delivered && redis.timeline != facts {
            return Err("the timelines are not the facts".to_owned());
        }
        match is_end && !(is_idle && redis.phase == Phase::Merged) {
            true => Err("it does not end".to_owned()),
            false => Ok(()),
        }
    }
}

/// A step of the command that depends on what it has read.
fn perform(redis: &mut Redis, command: Command, without: Without) {
    match command {
        Command::Nothing => {}
        Command::Copy(users) => redis.copy(users),
        Command::Absorb(amount) => redis.absorb(amount, without),
    }
}

/// Explores all interleavings. Returns how many states there are.
fn explore(
    facts: Users,
    (programs, reads): ([&[Action]; 2], u8),
    without: Without,
) -> Result<usize, String> {
    explore_erasure((facts, 0), (programs, reads), without)
}

/// [`explore`], while a user is erased at the base whenever they have no fact there.
fn explore_erasure(
    (facts, erased): (Users, Users),
    (programs, reads): ([&[Action]; 2], u8),
    without: Without,
) -> Result<usize, String> {
    let redis = Redis::new(facts);
    let mut processes = programs.map(Process::new);
    for process in &mut processes {
        process.look(&redis);
    }
    let first = World {
        redis,
        processes,
        reader: Reader {
            knows: Phase::Whole,
            reads,
            at: Reading::Begin,
            is_changed: false,
        },
        command: Command::Nothing,
        suspended: Command::Nothing,
        erased,
    };
    let (mut seen, mut open) = (HashSet::from([first.clone()]), vec![first]);
    while let Some(world) = open.pop() {
        let failed = |problem: String| format!("{problem}: {world:?}");
        let next = world.next(without).map_err(failed)?;
        world.check(next.is_empty()).map_err(failed)?;
        for world in next {
            if seen.insert(world.clone()) {
                open.push(world);
            }
        }
    }
    Ok(seen.len())
}

const ADD: Action = (1, true);
const REMOVE: Action = (1, false);

/// Programs of two processes with the same user.
fn programs() -> impl Iterator<Item = [&'static [Action]; 2]> {
    let firsts: [&[Action]; 4] = [
        &[ADD, ADD],
        &[ADD, REMOVE],
        &[REMOVE, ADD],
        &[REMOVE, REMOVE],
    ];
    let seconds: [&[Action]; 2] = [&[ADD], &[REMOVE]];
    firsts
        .into_iter()
        .flat_map(move |first| seconds.map(|second| [first, second]))
}

fn explore_all(without: Without) -> Result<(), String> {
    let alone: [&[Action]; 2] = [&[ADD, REMOVE], &[]];
    for facts in [0, 1, 2] {
        explore(facts, (alone, 1), without)?;
    }
    for facts in [0, 1] {
        for programs in programs() {
            explore(facts, (programs, 0), without)?;
        }
    }
    Ok(())
}

#[test]
fn counts_facts_and_timelines_are_exact_in_all_interleavings() {
    assert_eq!(explore_all(Without::Nothing), Ok(()));
    // Two users, of whom one has the fact before the split.
    let programs: [&[Action]; 2] = [&[ADD, REMOVE], &[(2, true), (2, false)]];
    let states = explore(1, (programs, 0), Without::Nothing);
    assert!(states.is_ok_and(|states| states > 1_000));
}

/// Programs of a user who takes the fact back and adds it again, at the base and at the shard.
fn erased_programs() -> [[&'static [Action]; 2]; 2] {
    [[&[REMOVE, ADD], &[ADD]], [&[REMOVE, ADD], &[REMOVE, ADD]]]
}

#[test]
fn erased_users_leave_the_base_in_all_interleavings() {
    for programs in programs().chain(erased_programs()) {
        assert!(explore_erasure((1, 1), (programs, 0), Without::Nothing).is_ok());
    }
}

#[test]
fn each_rule_of_leaving_the_base_is_needed() {
    for without in [Without::Leaving, Without::Left] {
        let explored =
            erased_programs().map(|programs| explore_erasure((1, 1), (programs, 0), without));
        let is_inexact = |result: &Result<usize, String>| {
            let problem = result.as_ref().err();
            problem.is_some_and(|problem| !problem.starts_with("it does not end"))
        };
        assert!(explored.iter().any(is_inexact), "{without:?}");
    }
}

#[test]
fn each_rule_is_needed() {
    for without in [
        Without::Fence,
        Without::ShardFence,
        Without::Merging,
        Without::Former,
        Without::Open,
        Without::Followed,
        Without::Delivered,
        Without::Once,
        Without::Reread,
    ] {
        let problem = explore_all(without).err().unwrap_or_default();
        let is_inexact = !problem.is_empty() && !problem.starts_with("it does not end");
        assert!(is_inexact, "without {without:?}: {problem}");
    }
}
