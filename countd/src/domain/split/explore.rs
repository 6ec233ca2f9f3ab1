//! Visits all interleavings of two processes, the command that splits and merges, and the consumers.

use super::protocol::{Action, Key, Moving, Phase, Redis, Reply, Users, Without};
use std::collections::HashSet;

/// Where a process is in an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Begin,
    /// The home of the user was not the base.
    Shard,
    /// The home of the user is not the shard any more.
    Base,
    Absorb(Moving),
    Release(u8),
}

/// A process and its next actions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    knows: Phase,
    actions: Vec<Action>,
    step: Step,
    /// Whether the fact was missing, and whether it existed, at some time since the action began.
    seen: (bool, bool),
}

/// What the command remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    Nothing,
    Absorb(Moving),
    Release(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    redis: Redis,
    processes: [Process; 2],
    command: Command,
}

impl Process {
    fn new(actions: &[Action]) -> Process {
        Process {
            knows: Phase::Whole,
            actions: actions.to_vec(),
            step: Step::Begin,
            seen: (false, false),
        }
    }

    fn look(&mut self, redis: &Redis) {
        if let Some((user, _)) = self.actions.first() {
            let exists = redis.facts() & user != 0;
            self.seen = (self.seen.0 || !exists, self.seen.1 || exists);
        }
    }

    /// Performs the next step of the action. An error is a wrong answer to the client.
    fn act(&mut self, redis: &mut Redis, without: Without) -> Result<(), String> {
        let action = self.actions[0];
        let reply = match (self.step, self.knows) {
            (Step::Absorb(moving), _) => {
                redis.absorb(moving, without);
                self.step = Step::Release(moving.seq);
                return Ok(());
            }
            (Step::Release(seq), _) => {
                redis.release(seq);
                self.step = Step::Begin;
                return Ok(());
            }
            (Step::Base, _) => redis.act_base(action, true, without),
            (Step::Shard, Phase::Merging) => match redis.act_merging(action, without) {
                Reply::Unfrozen => redis.act_shard(action),
                reply => reply,
            },
            (Step::Shard, _) => redis.act_shard(action),
            (Step::Begin, Phase::Whole | Phase::Splitting | Phase::Merged) => {
                redis.act_whole(action)
            }
            (Step::Begin, Phase::Split | Phase::Merging) => redis.act_base(action, false, without),
        };
        match reply {
            Reply::Done { changed } => {
                let (was_missing, existed) = self.seen;
                let is_right = changed || if action.1 { existed } else { was_missing };
                self.actions.remove(0);
                (self.step, self.seen) = (Step::Begin, (false, false));
                self.look(redis);
                match is_right {
                    true => Ok(()),
                    false => Err(format!("{action:?} changed nothing")),
                }
            }
            Reply::WrongType => {
                self.refresh(redis);
                Ok(())
            }
            Reply::Shard => {
                self.step = Step::Shard;
                Ok(())
            }
            Reply::Base => {
                self.step = Step::Base;
                Ok(())
            }
            Reply::Unfrozen => Err("the shard is not frozen".to_owned()),
            Reply::Sealed(moving) => {
                self.step = Step::Absorb(moving);
                Ok(())
            }
        }
    }

    /// Reads the state. Keys change before the state says so: a process goes on to the next phase if its own is refused.
    fn refresh(&mut self, redis: &Redis) {
        let next = match (redis.phase, self.knows) {
            (Phase::Splitting, Phase::Splitting) => Phase::Split,
            (Phase::Merging, Phase::Merging) if self.step != Step::Shard => Phase::Merged,
            (phase, _) => phase,
        };
        (self.knows, self.step) = (next, Step::Begin);
    }
}

impl World {
    /// The next steps of the command. It may run again from its beginning: what it does next is in Redis.
    fn commands(&self, without: Without, users: &[Users]) -> Vec<World> {
        let mut next = Vec::new();
        let mut add = |change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        match self.command {
            Command::Absorb(moving) => add(&|world| {
                world.redis.absorb(moving, without);
                world.command = Command::Release(moving.seq);
            }),
            Command::Release(seq) => add(&|world| {
                world.redis.release(seq);
                world.command = Command::Nothing;
            }),
            Command::Nothing => {}
        }
        if self.command != Command::Nothing {
            // It is killed.
            add(&|world| world.command = Command::Nothing);
            return next;
        }
        let redis = &self.redis;
        match redis.phase {
            Phase::Whole => add(&|world| world.redis.phase = Phase::Splitting),
            Phase::Splitting => {
                add(&|world| match world.redis.is_frozen {
                    false => world.redis.freeze_base(without),
                    true => world.redis.phase = Phase::Split,
                });
            }
            Phase::Split if !redis.is_open => {
                add(&|world| world.redis.open());
            }
            Phase::Split => {
                add(&|world| world.redis.open());
                add(&|world| world.redis.phase = Phase::Merging);
            }
            Phase::Merging => {
                add(&|world| world.redis.freeze_shard(without));
                add(&|world| world.redis.open_shard());
                for user in users {
                    add(&|world| world.redis.take(*user));
                }
                add(&|world| {
                    if world.redis.seal(without)
                        && let Some(moving) = world.redis.moving
                    {
                        world.command = Command::Absorb(moving);
                    }
                });
                let is_empty = redis.frozen | redis.shard_former == 0 && redis.moving.is_none();
                if is_empty && redis.is_shard_open {
                    add(&|world| world.redis.thaw_base());
                    if redis.base == Key::Fence {
                        add(&|world| world.redis.phase = Phase::Merged);
                    }
                }
            }
            Phase::Merged => {}
        }
        next
    }

    fn next(&self, without: Without, users: &[Users]) -> Result<Vec<World>, String> {
        let mut next = self.commands(without, users);
        for i in 0..self.processes.len() {
            if !self.processes[i].actions.is_empty() {
                let mut world = self.clone();
                let World {
                    redis, processes, ..
                } = &mut world;
                processes[i].act(redis, without)?;
                next.push(world);
            }
            let process = &self.processes[i];
            if process.step == Step::Begin && process.knows < self.redis.phase {
                let mut world = self.clone();
                world.processes[i].knows = self.redis.phase;
                next.push(world);
            }
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
        for world in &mut next {
            let World {
                redis, processes, ..
            } = world;
            for process in processes {
                process.look(redis);
            }
        }
        Ok(next)
    }

    /// What must be true at any time, and at the end.
    fn check(&self, is_end: bool) -> Result<(), String> {
        let redis = &self.redis;
        let places: u32 = redis.places().iter().map(|users| users.count_ones()).sum();
        let facts = redis.facts();
        if places != facts.count_ones() || i64::from(redis.count()) != i64::from(places) {
            return Err("the count is not the number of facts".to_owned());
        }
        if redis.absorbed.1 > redis.taken {
            return Err("the base has more than the shard has given".to_owned());
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

/// Explores all interleavings. Returns how many states there are.
fn explore(facts: Users, programs: [&[Action]; 2], without: Without) -> Result<usize, String> {
    let users: &[Users] = &[1, 2];
    let redis = Redis::new(facts);
    let mut processes = programs.map(Process::new);
    for process in &mut processes {
        process.look(&redis);
    }
    let first = World {
        redis,
        processes,
        command: Command::Nothing,
    };
    let (mut seen, mut open) = (HashSet::from([first.clone()]), vec![first]);
    while let Some(world) = open.pop() {
        let failed = |problem: String| format!("{problem}: {world:?}");
        let next = world.next(without, users).map_err(failed)?;
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

/// Programs of two processes with the same user. Which process has which does not matter.
fn programs() -> Vec<[Vec<Action>; 2]> {
    let all = [[ADD, ADD], [ADD, REMOVE], [REMOVE, ADD], [REMOVE, REMOVE]];
    let pairs = all.iter().enumerate();
    pairs
        .flat_map(|(i, first)| {
            all[i..]
                .iter()
                .map(|second| [first.to_vec(), second.to_vec()])
        })
        .collect()
}

fn explore_all(without: Without) -> Result<(), String> {
    for facts in [0, 1] {
        for [first, second] in programs() {
            explore(facts, [&first, &second], without)?;
        }
    }
    Ok(())
}

#[test]
fn counts_facts_and_timelines_are_exact_in_all_interleavings() {
    assert_eq!(explore_all(Without::Nothing), Ok(()));
    // Two users, of whom one has the fact before the split.
    let programs: [&[Action]; 2] = [&[ADD, REMOVE], &[(2, true), (2, false)]];
    assert!(explore(1, programs, Without::Nothing).is_ok_and(|states| states > 1_000));
}

#[test]
fn each_rule_is_needed() {
    for without in [
        Without::Fence,
        Without::ShardFence,
        Without::Former,
        Without::Wait,
        Without::Number,
        Without::Help,
        Without::Open,
        Without::ShardOpen,
        Without::ShardFormer,
    ] {
        let problem = explore_all(without).err().unwrap_or_default();
        let is_inexact = !problem.is_empty() && !problem.starts_with("it does not end");
        assert!(is_inexact, "without {without:?}: {problem}");
    }
}
