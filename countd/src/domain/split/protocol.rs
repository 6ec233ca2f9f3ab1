//! The protocol of a split and its merge as a model of one metric, one shard and up to two users. Each step of a process is what one script
//! or command does in Redis. `explore` (tests) visits all interleavings of the steps of processes, of the command and of the consumers.
//!
//! Processes that write may follow an earlier phase for any time. The command may be killed before each step: what it remembers is lost,
//! and it runs again.

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
    pub fn users(self) -> Users {
        match self {
            Key::Facts(users) => users,
            Key::Fence => 0,
        }
    }
}

/// What the stored state of the entity says, in the order in which it changes. After the merge the entity is whole again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Whole,
    Splitting,
    Split,
    Merging,
    Merged,
}

/// A log: whether each event adds a fact of which user, and how many of them have reached the timelines of users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Log {
    pub events: Vec<(Users, bool)>,
    pub delivered: usize,
}

impl Log {
    fn is_delivered(&self) -> bool {
        self.delivered == self.events.len()
    }
}

/// A rule of the protocol that a test leaves out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    Nothing,
    /// The String at the old key of the facts of the base.
    Fence,
    /// The String at the key of the facts of the shard.
    ShardFence,
    /// Whether the base refuses actions, while facts are copied.
    Merging,
    /// The set of users of the base who have taken their fact back.
    Former,
    /// The wait for the log of the base before the shard gets facts.
    Open,
    /// The wait for processes that read only the base before the shard gets facts.
    Followed,
    /// The wait for the logs before the base gets facts of users of the shard.
    Delivered,
    /// The marker that lets the amounts of the shard be added once.
    Once,
    /// The second read of the marker, after the counters.
    Reread,
    /// The refusal of actions of a user who leaves the base.
    Leaving,
    /// The wait for the log of the base before a user who leaves it is forgotten.
    Left,
}

/// What is in Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Redis {
    pub phase: Phase,
    /// The old key of the facts of the base, and the key that they have while the entity is split.
    pub whole: Key,
    pub base: Key,
    pub former: Users,
    /// The users who leave the base because they are erased, and the length of its log when the last one began to.
    pub leaving: Users,
    pub left_at: usize,
    /// The length of the log of the base when its facts were frozen, whether they are, and whether the shard gets facts.
    pub frozen_at: usize,
    pub is_frozen: bool,
    pub is_open: bool,
    /// Whether the base refuses all actions, and whether it has the facts and the amounts of the shard.
    pub is_merging: bool,
    pub is_absorbed: bool,
    pub base_count: i8,
    pub base_log: Log,
    /// The key of the facts of the shard, and the key that they have from the beginning of the merge.
    pub shard: Key,
    pub fenced: Users,
    pub is_shard_fenced: bool,
    pub shard_count: i8,
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
    /// The home of the user is the shard.
    Shard,
    /// The base is being merged.
    Merging,
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
            leaving: 0,
            left_at: 0,
            frozen_at: 0,
            is_frozen: false,
            is_open: false,
            is_merging: false,
            is_absorbed: false,
            base_count: facts.count_ones() as i8,
            base_log: Log::default(),
            shard: Key::Facts(0),
            fenced: 0,
            is_shard_fenced: false,
            shard_count: 0,
            shard_log: Log::default(),
            timeline: facts,
        }
    }

    /// The facts. During the merge some are at both places.
    pub fn facts(&self) -> Users {
        let base = self.whole.users() | self.base.users();
        match self.is_absorbed {
            true => base,
            false => base | self.shard.users() | self.fenced,
        }
    }

    /// The sum of the counters.
    pub fn count(&self) -> i8 {
        match self.is_absorbed {
            true => self.base_count,
            false => self.base_count + self.shard_count,
        }
    }

    /// An action of a process to which the entity is whole.
    pub fn act_whole(&mut self, action: Action) -> Reply {
        let Key::Facts(facts) = &mut self.whole else {
            return Reply::WrongType;
        };
        let changed = change(facts, &mut self.base_count, &mut self.base_log, action);
        Reply::Done { changed }
    }

    /// An action at the base of a split entity: on the old key unless it is a fence.
    pub fn act_base(&mut self, action: Action, without: Without) -> Reply {
        if self.is_merging && !self.is_absorbed && without != Without::Merging {
            return Reply::Merging;
        }
        let (user, adds) = action;
        let (facts, is_frozen) = match (&mut self.whole, &mut self.base) {
            (Key::Facts(facts), _) if !self.is_frozen || self.is_absorbed => (facts, false),
            (_, Key::Facts(facts)) => (facts, true),
            _ => return Reply::WrongType,
        };
        if is_frozen && self.leaving & user != 0 && without != Without::Leaving {
            return Reply::Merging;
        }
        let is_home = (*facts | self.former) & user != 0;
        if is_frozen && self.is_open && !is_home {
            return Reply::Shard;
        }
        let changed = change(facts, &mut self.base_count, &mut self.base_log, action);
        // Users with facts are never removed from it, so that a scan of the facts and then of these users finds all whose home is the base.
        if is_frozen && !adds && changed && without != Without::Former {
            self.former |= user;
        }
        Reply::Done { changed }
    }

    /// The script that lets a user without facts leave the base.
    pub fn leave(&mut self, user: Users) {
        let has_left = self.leaving & user != 0 || self.former & user == 0;
        if self.is_open && !self.is_merging && !has_left && self.base.users() & user == 0 {
            self.leaving |= user;
            self.left_at = self.base_log.events.len();
        }
    }

    /// The script that removes the users who leave from the base. Their home is the shard then.
    pub fn forget(&mut self, without: Without) {
        let is_delivered = self.base_log.delivered >= self.left_at || without == Without::Left;
        if is_delivered && !self.is_merging && self.base.users() & self.leaving == 0 {
            self.former &= !self.leaving;
            self.leaving = 0;
        }
    }

    /// An action at the shard of a split entity.
    pub fn act_shard(&mut self, action: Action) -> Reply {
        let Key::Facts(facts) = &mut self.shard else {
            return Reply::WrongType;
        };
        let changed = change(facts, &mut self.shard_count, &mut self.shard_log, action);
        Reply::Done { changed }
    }

    /// The script that freezes the facts of the base.
    pub fn freeze(&mut self, without: Without) {
        if let (Key::Facts(facts), false) = (self.whole, self.is_frozen) {
            self.is_frozen = true;
            self.base = Key::Facts(facts);
            self.frozen_at = self.base_log.events.len();
            self.whole = match without {
                Without::Fence => Key::Facts(0),
                _ => Key::Fence,
            };
        }
    }

    /// Whether the shard may get facts: the events before the facts of the base were frozen have reached the timelines.
    pub fn may_open(&self, without: Without) -> bool {
        let is_delivered = self.base_log.delivered >= self.frozen_at;
        self.is_frozen && !self.is_open && (is_delivered || without == Without::Open)
    }

    /// The script that lets the base refuse actions.
    pub fn fence_base(&mut self) {
        self.is_merging = true;
    }

    /// The script that fences the facts of the shard.
    pub fn fence_shard(&mut self, without: Without) {
        if let (Key::Facts(facts), false) = (self.shard, self.is_shard_fenced) {
            self.is_shard_fenced = true;
            self.fenced = facts;
            self.shard = match without {
                Without::ShardFence => Key::Facts(0),
                _ => Key::Fence,
            };
        }
    }

    /// Whether nothing changes any more, and the events until then have reached the timelines.
    pub fn may_copy(&self, without: Without) -> bool {
        let is_delivered = self.base_log.is_delivered() && self.shard_log.is_delivered();
        self.is_merging && self.is_shard_fenced && (is_delivered || without == Without::Delivered)
    }

    /// Adds facts of the shard to those of the base.
    pub fn copy(&mut self, users: Users) {
        if let Key::Facts(facts) = &mut self.base {
            *facts |= users;
        }
    }

    /// The last script of a merge, in the slot of the base.
    pub fn absorb(&mut self, amount: i8, without: Without) {
        if self.is_absorbed && without != Without::Once {
            return;
        }
        self.base_count += amount;
        if let Key::Facts(facts) = self.base {
            self.whole = Key::Facts(facts);
            self.base = Key::Fence;
        }
        (self.former, self.leaving) = (0, 0);
        self.is_absorbed = true;
    }

    /// Deletes the facts and the counters of the shard.
    pub fn delete_shard(&mut self) {
        self.fenced = 0;
        self.shard_count = 0;
    }
}
