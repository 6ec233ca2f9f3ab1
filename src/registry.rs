//! Tells the server which commands there are: handler, flags, key specifications, documentation, ACL categories.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use redis_module::raw;

use crate::api::api;
use crate::call::{Call, Outcome, dispatch};
use crate::keyspace::Keyspace;
use crate::spec::{Arg, Command, KeySpec, Kind, Spec};

/// What the server calls when a client calls a command.
type Handler = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// A line of the table of commands.
pub struct Row {
    spec: Spec,
    handler: Handler,
}

/// The table's line for a command.
pub const fn row<C: Command>() -> Row {
    Row {
        spec: C::SPEC,
        handler: handler::<C>,
    }
}

unsafe extern "C" fn handler<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let run = if C::MOVING_KEYS {
        keys_or_run::<C>
    } else {
        C::run
    };
    // SAFETY: the server's own arguments, passed on.
    unsafe { dispatch(ctx, argv, argc, run) }
}

/// The server calls the handler of a command with moving keys to learn where they are, too.
fn keys_or_run<C: Command>(call: &Call, keys: &mut Keyspace) -> Outcome {
    if !call.asks_for_keys() {
        return C::run(call, keys);
    }
    C::keys(call);
    Ok(())
}

/// The version of the structures that describe a command. Its sizes let a newer server read them.
static INFO_VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Registers the module's own ACL categories, where the server has such, and all commands. The error is a text for
/// the server's log.
pub fn register<'a>(
    ctx: *mut raw::RedisModuleCtx,
    rows: impl Iterator<Item = &'a Row>,
) -> Result<(), String> {
    let own_categories = add_categories(ctx);
    for row in rows {
        register_one(ctx, row, own_categories).map_err(|what| {
            format!(
                "countint: cannot register {}: {what}",
                row.spec.name.to_string_lossy()
            )
        })?;
    }
    Ok(())
}

/// Adds `@countint` and `@rbm`. Redis 7.0 knows no categories of modules, 7.2 no new ones.
fn add_categories(ctx: *mut raw::RedisModuleCtx) -> bool {
    // SAFETY: the pointer is set once, before any of our code runs.
    let Some(add) = (unsafe { raw::RedisModule_AddACLCategory }) else {
        return false;
    };
    // SAFETY: `ctx` is the context of the module's load, the only time when categories may be added.
    [c"countint", c"rbm"]
        .iter()
        .all(|name| unsafe { add(ctx, name.as_ptr()) } == OK)
}

const OK: c_int = raw::REDISMODULE_OK as c_int;

fn register_one(
    ctx: *mut raw::RedisModuleCtx,
    row: &Row,
    own_categories: bool,
) -> Result<(), &'static str> {
    let spec = &row.spec;
    let (first, last) = legacy_range(spec.keys);
    let step = c_int::from(first > 0);
    let status = api!(RedisModule_CreateCommand(
        ctx,
        spec.name.as_ptr(),
        Some(row.handler),
        spec.flags.as_ptr(),
        first,
        last,
        step
    ));
    if status != OK {
        return Err("the name is taken");
    }
    let command = api!(RedisModule_GetCommand(ctx, spec.name.as_ptr()));
    describe(command, spec)?;
    set_categories(command, spec.categories, own_categories)
}

/// First and last key in the old form, one range. Commands with more specifications get theirs replaced below.
fn legacy_range(keys: &[KeySpec]) -> (c_int, c_int) {
    let fixed = || keys.iter().filter(|key| key.keyword.is_none());
    match (fixed().next(), fixed().next_back()) {
        (Some(first), Some(last)) => (
            first.first,
            if last.last < 0 {
                last.last
            } else {
                last.first + last.last
            },
        ),
        _ => (0, 0),
    }
}

fn describe(command: *mut raw::RedisModuleCommand, spec: &Spec) -> Result<(), &'static str> {
    let mut keys: Vec<_> = spec.keys.iter().map(raw_key_spec).collect();
    // An entry of zeros ends the list.
    // SAFETY: a structure of integers, null pointers and unions of integers, for which zeros are valid.
    keys.push(unsafe { std::mem::zeroed() });
    let mut args = RawArgs::new(spec.args);
    let info = raw::RedisModuleCommandInfo {
        version: &raw const INFO_VERSION,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: spec.since.as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: spec.arity,
        key_specs: keys.as_mut_ptr(),
        args: args.list.as_mut_ptr(),
    };
    match api!(RedisModule_SetCommandInfo(command, &info)) {
        OK => Ok(()),
        _ => Err("the server refused its description"),
    }
}

fn raw_key_spec(key: &KeySpec) -> raw::RedisModuleCommandKeySpec {
    // SAFETY: as in `describe`; every field that is read for these two types is set below.
    let mut spec: raw::RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    spec.flags = u64::from(key.flags);
    match key.keyword {
        None => {
            spec.begin_search_type =
                raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
            spec.bs.index.pos = key.first;
        }
        Some(keyword) => {
            spec.begin_search_type =
                raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
            spec.bs.keyword.keyword = keyword.as_ptr();
            spec.bs.keyword.startfrom = key.first;
        }
    }
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    spec.fk.range.lastkey = key.last;
    spec.fk.range.keystep = 1;
    spec.fk.range.limit = 0;
    spec
}

/// The server's form of a list of arguments, with the lists of their parts, which it points into.
struct RawArgs {
    list: Vec<raw::RedisModuleCommandArg>,
    _parts: Vec<RawArgs>,
}

impl RawArgs {
    fn new(args: &[Arg]) -> Self {
        let mut parts = Vec::new();
        let mut list: Vec<_> = args.iter().map(|arg| raw_arg(arg, &mut parts)).collect();
        // SAFETY: as in `describe`: an entry of zeros ends the list.
        list.push(unsafe { std::mem::zeroed() });
        RawArgs {
            list,
            _parts: parts,
        }
    }
}

fn raw_arg(arg: &Arg, parts: &mut Vec<RawArgs>) -> raw::RedisModuleCommandArg {
    let mut subargs = |args: &[Arg]| {
        let mut part = RawArgs::new(args);
        let list = part.list.as_mut_ptr(); // stays where it is when `part` moves
        parts.push(part);
        list
    };
    let (kind, key_spec, list) = match arg.kind {
        Kind::Key(spec) => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
            spec,
            ptr::null_mut(),
        ),
        Kind::Text => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            -1,
            ptr::null_mut(),
        ),
        Kind::Integer => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            -1,
            ptr::null_mut(),
        ),
        Kind::Word => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
            -1,
            ptr::null_mut(),
        ),
        Kind::OneOf(args) => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
            -1,
            subargs(args),
        ),
        Kind::Block(args) => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
            -1,
            subargs(args),
        ),
    };
    raw::RedisModuleCommandArg {
        name: arg.name.as_ptr(),
        type_: kind,
        key_spec_index: key_spec,
        token: arg.token.map_or(ptr::null::<c_char>(), CStr::as_ptr),
        summary: ptr::null(),
        since: ptr::null(),
        flags: arg.flags as c_int,
        deprecated_since: ptr::null(),
        subargs: list,
        display_text: ptr::null(),
    }
}

/// Puts the command into its ACL categories: the module's own first, where the server lets modules add some.
fn set_categories(
    command: *mut raw::RedisModuleCommand,
    categories: &CStr,
    own_categories: bool,
) -> Result<(), &'static str> {
    // SAFETY: the pointer is set once, before any of our code runs.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandACLCategories }) else {
        return Ok(());
    };
    let skip = if own_categories {
        0
    } else {
        categories
            .to_bytes()
            .iter()
            .position(|&b| b == b' ')
            .map_or(0, |at| at + 1)
    };
    // A tail of a C string is one too.
    // SAFETY: the pointers come from the server and from a C string with at least `skip` bytes.
    match unsafe { set(command, categories.as_ptr().add(skip)) } {
        OK => Ok(()),
        _ => Err("the server refused its ACL categories"),
    }
}
