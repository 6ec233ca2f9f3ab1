//! The protocol of a split and its merge as a model of one metric, one shard and up to two users. Each step of a process is what one script
//! or command does in Redis. `explore` (tests) visits all interleavings of the steps of two processes, of the command and of the
//! consumers.
//!
//! Processes may follow an earlier phase for any time. The command may be killed before each step: what it remembers is lost, and it runs
//! again.

/// A set of users, as bits.
pub(super) type Users = u8;

/// A key of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The facts; a missing key has none.
    Facts(Users),
    /// A String: commands on facts fail with `WRONGTYPE`.
    Fence,
}

impl Key {
    fn users(self) -> Users {
        match self {
            Key::Facts(users) => users,
            Key::Fence => 0,
        }
    }
}

/// What the stored state of the entity says, in the order in which it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Whole,
    Splitting,
    Split,
    Merging,
    Merged,
}

/// A batch on its way from the shard to the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moving {
    pub seq: u8,
    pub users: Users,
    /// Users whose home moves to the base with the batch, who have no fact.
    pub former: Users,
    /// The length of the log of the shard up to which it has to be counted before the batch is sealed.
    pub after: usize,
    pub is_sealed: bool,
}

/// A log: whether each event adds a fact of which user, and how many of them have reached the timelines of users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Log {
    pub events: Vec<(Users, bool)>,
    pub delivered: usize,
}

/// A rule of the protocol that a test leaves out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    Nothing,
    /// The String at the old key of the facts of the base.
    Fence,
    /// The String at the key of the facts of the shard.
    ShardFence,
    /// The set of users of the base who have taken their fact back.
    Former,
    /// The wait for the log of the shard before a batch is sealed.
    Wait,
    /// The comparison of numbers of batches.
    Number,
    /// The completion of a sealed batch by a process that removes a fact of one of its users.
    Help,
    /// The wait for the log of the base before the shard gets facts.
    Open,
    /// The wait for the log of the shard before the base gets facts of its users.
    ShardOpen,
    /// The set of users of the shard who have taken their fact back during the merge.
    ShardFormer,
}

/// What is in Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Redis {
    pub phase: Phase,
    pub whole: Key,
    pub base: Key,
    pub former: Users,
    /// The length of the log of the base when its facts were frozen, whether they are, and whether the shard gets facts.
    pub frozen_at: usize,
    pub is_frozen: bool,
    pub is_open: bool,
    pub base_count: i8,
    pub absorbed: (u8, i8),
    pub base_log: Log,
    pub shard: Key,
    pub frozen: Users,
    pub shard_former: Users,
    pub shard_frozen_at: usize,
    pub is_shard_frozen: bool,
    pub is_shard_open: bool,
    pub shard_count: i8,
    pub taken: i8,
    pub batches: u8,
    pub moving: Option<Moving>,
    pub shard_log: Log,
    pub timeline: Users,
}

/// The result of an action at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Done {
        changed: bool,
    },
    WrongType,
    /// The home of the user is not the base.
    Shard,
    /// The shard is not frozen.
    Unfrozen,
    /// The home of the user is not the shard any more.
    Base,
    /// The user is in a sealed batch.
    Sealed(Moving),
}

/// A fact of a user to add or to remove.
pub(super) type Action = (Users, bool);

fn change(facts: &mut Users, count: &mut i8, log: &mut Log, (user, adds): Action) -> bool {
    let changed = (*facts & user == 0) == adds;
    if changed {
        *facts ^= user;
        *count += if adds { 1 } else { -1 };
        log.events.push((user, adds));
    }
    changed
}

impl Redis {
    pub fn new(facts: Users) -> Redis {
        Redis {
            phase: Phase::Whole,
            whole: Key::Facts(facts),
            base: Key::Facts(0),
            former: 0,
            frozen_at: 0,
            is_frozen: false,
            is_open: false,
            base_count: facts.count_ones() as i8,
            absorbed: (0, 0),
            base_log: Log::default(),
            shard: Key::Facts(0),
            frozen: 0,
            shard_former: 0,
            shard_frozen_at: 0,
            is_shard_frozen: false,
            is_shard_open: false,
            shard_count: 0,
            taken: 0,
            batches: 0,
            moving: None,
            shard_log: Log::default(),
            timeline: facts,
        }
    }

    /// Each fact once for each place where it is.
    pub fn places(&self) -> [Users; 5] {
        let moving = self.moving.filter(|moving| moving.seq > self.absorbed.0);
        [
            self.whole.users(),
            self.base.users(),
            self.shard.users(),
            self.frozen,
            moving.map_or(0, |moving| moving.users),
        ]
    }

    /// The facts.
    pub fn facts(&self) -> Users {
        self.places().into_iter().fold(0, |all, users| all | users)
    }

    /// The count that a read returns.
    pub fn count(&self) -> i8 {
        (self.shard_count + self.taken) + (self.base_count - self.absorbed.1)
    }

    /// An action of a process to which the entity is whole.
    pub fn act_whole(&mut self, action: Action) -> Reply {
        let Key::Facts(facts) = &mut self.whole else {
            return Reply::WrongType;
        };
        let changed = change(facts, &mut self.base_count, &mut self.base_log, action);
        Reply::Done { changed }
    }

    /// An action at the base of a split entity. Users who have no home there yet get one if the action is `forced`.
    pub fn act_base(&mut self, action: Action, forced: bool, without: Without) -> Reply {
        let Key::Facts(facts) = &mut self.base else {
            return Reply::WrongType;
        };
        let (user, adds) = action;
        let is_home = (*facts | self.former) & user != 0;
        if !is_home && !forced && (self.is_open || without == Without::Open) {
            return Reply::Shard;
        }
        let changed = change(facts, &mut self.base_count, &mut self.base_log, action);
        if adds {
            self.former &= !user;
        } else if changed && without != Without::Former {
            self.former |= user;
        }
        Reply::Done { changed }
    }

    /// An action at the shard of a split entity.
    pub fn act_shard(&mut self, action: Action) -> Reply {
        let Key::Facts(facts) = &mut self.shard else {
            return Reply::WrongType;
        };
        let changed = change(facts, &mut self.shard_count, &mut self.shard_log, action);
        Reply::Done { changed }
    }

    /// An action at the shard of an entity that is merged, of a user whose home was not the base.
    pub fn act_merging(&mut self, action: Action, without: Without) -> Reply {
        let (user, adds) = action;
        if !self.is_shard_frozen {
            return Reply::Unfrozen;
        }
        let mut is_home = (self.frozen | self.shard_former) & user != 0;
        if let Some(moving) = &mut self.moving
            && (moving.users | moving.former) & user != 0
        {
            if moving.is_sealed && without != Without::Help {
                return Reply::Sealed(*moving);
            }
            // It leaves the batch.
            let amount = (moving.users & user).count_ones() as i8;
            self.frozen |= moving.users & user;
            moving.users &= !user;
            moving.former &= !user;
            self.taken -= amount;
            self.shard_count += amount;
            is_home = true;
        }
        if !is_home && (self.is_shard_open || without == Without::ShardOpen) {
            return Reply::Base;
        }
        let (facts, log) = (&mut self.frozen, &mut self.shard_log);
        let changed = change(facts, &mut self.shard_count, log, action);
        if adds {
            self.shard_former &= !user;
        } else if (changed || is_home) && without != Without::ShardFormer {
            self.shard_former |= user;
        }
        Reply::Done { changed }
    }

    /// The first script of a split, in the slot of the base.
    pub fn freeze_base(&mut self, without: Without) {
        if let Key::Facts(facts) = self.whole {
            self.is_frozen = true;
            self.base = Key::Facts(facts);
            self.frozen_at = self.base_log.events.len();
            self.whole = match without {
                Without::Fence => Key::Facts(0),
                _ => Key::Fence,
            };
        }
    }

    /// The first script of a merge, in the slot of the shard.
    pub fn freeze_shard(&mut self, without: Without) {
        if let Key::Facts(facts) = self.shard
            && !self.is_shard_frozen
        {
            self.is_shard_frozen = true;
            self.frozen |= facts;
            self.shard_frozen_at = self.shard_log.events.len();
            self.shard = match without {
                Without::ShardFence => Key::Facts(0),
                _ => Key::Fence,
            };
        }
    }

    /// Lets the shard get facts, if the events before the facts of the base were frozen have reached the timelines.
    pub fn open(&mut self) {
        self.is_open |= self.is_frozen && self.base_log.delivered >= self.frozen_at;
    }

    /// Lets the base get facts of the users of the shard.
    pub fn open_shard(&mut self) {
        let is_delivered = self.shard_log.delivered >= self.shard_frozen_at;
        self.is_shard_open |= self.is_shard_frozen && is_delivered;
    }

    /// Takes users of the shard, one at a time, into a batch.
    pub fn take(&mut self, user: Users) {
        let (users, former) = (self.frozen & user, self.shard_former & user);
        if self.moving.is_none() && self.is_shard_open && users | former != 0 {
            let amount = users.count_ones() as i8;
            self.frozen &= !user;
            self.shard_former &= !user;
            self.shard_count -= amount;
            self.taken += amount;
            self.batches += 1;
            self.moving = Some(Moving {
                seq: self.batches,
                users,
                former,
                after: self.shard_log.events.len(),
                is_sealed: false,
            });
        }
    }

    /// Seals a batch if the events up to its offset have reached the timelines.
    pub fn seal(&mut self, without: Without) -> bool {
        let delivered = self.shard_log.delivered;
        match &mut self.moving {
            Some(moving) if delivered >= moving.after || without == Without::Wait => {
                moving.is_sealed = true;
                true
            }
            _ => false,
        }
    }

    /// Adds a batch to the base.
    pub fn absorb(&mut self, moving: Moving, without: Without) {
        if let Key::Facts(facts) = &mut self.base
            && (moving.seq > self.absorbed.0 || without == Without::Number)
        {
            *facts |= moving.users;
            let amount = moving.users.count_ones() as i8;
            self.base_count += amount;
            self.absorbed = (moving.seq, self.absorbed.1 + amount);
        }
    }

    /// Deletes a batch that the base has.
    pub fn release(&mut self, seq: u8) {
        self.moving = self.moving.filter(|moving| moving.seq != seq);
    }

    /// The last script of a merge, in the slot of the base.
    pub fn thaw_base(&mut self) {
        if let Key::Facts(facts) = self.base {
            self.whole = Key::Facts(facts);
            self.base = Key::Fence;
            self.former = 0;
        }
    }
}
