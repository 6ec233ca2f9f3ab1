//! Sets the module's options, and registers commands: handler, flags, key specifications, documentation and ACL categories.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use redis_module::{Context, raw};

use super::api::api;
use super::call::{Call, Outcome};
use super::dispatch::dispatch;
use super::keyspace::Keyspace;
use super::spec::{Arg, Command, KeySpec, Kind, Spec};

/// The function that the server calls to run a command.
type Handler = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// A command to register.
pub struct CommandEntry {
    spec: Spec,
    handler: Handler,
}

/// The entry of a command.
pub const fn command<C: Command>() -> CommandEntry {
    CommandEntry {
        spec: C::SPEC,
        handler: handler::<C>,
    }
}

unsafe extern "C" fn handler<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let run = if C::MOVABLE_KEYS {
        keys_or_run::<C>
    } else {
        C::run
    };
    // SAFETY: the arguments that the server passed.
    unsafe { dispatch(ctx, argv, argc, run) }
}

/// The server also calls the handler of a command with movable keys to learn the positions of the keys.
fn keys_or_run<C: Command>(call: &Call, keys: &mut Keyspace) -> Outcome {
    if !call.is_keys_request() {
        return C::run(call, keys);
    }
    C::keys(call);
    Ok(())
}

/// The version of the structures that describe a command. A newer server reads them by these sizes.
static INFO_VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Sets the module's options. Keys are signalled as modified only when they have changed. A short read fails a load
/// instead of ending the server. Values do not depend on one another, so a replica may serve reads while it loads.
pub fn set_options(ctx: &Context) {
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    api!(RedisModule_SetModuleOptions(
        ctx.get_raw(),
        options as c_int
    ));
}

/// Registers commands, and the ACL categories `own_categories` if the server supports that. The error is a message for
/// the server's log.
pub fn register(
    ctx: &Context,
    commands: &[CommandEntry],
    own_categories: &[&CStr],
) -> Result<(), String> {
    let ctx = ctx.get_raw();
    let has_own_categories = add_categories(ctx, own_categories);
    for entry in commands {
        register_one(ctx, entry, has_own_categories).map_err(|reason| {
            format!(
                "countint: cannot register {}: {reason}",
                entry.spec.name.to_string_lossy()
            )
        })?;
    }
    Ok(())
}

/// Adds ACL categories. Redis 7.0 has no categories for modules, and 7.2 accepts no new ones.
fn add_categories(ctx: *mut raw::RedisModuleCtx, names: &[&CStr]) -> bool {
    // SAFETY: the pointer is set once, before other code of the module runs.
    let Some(add) = (unsafe { raw::RedisModule_AddACLCategory }) else {
        return false;
    };
    // SAFETY: `ctx` is the context in which the server loads the module.
    names
        .iter()
        .all(|name| unsafe { add(ctx, name.as_ptr()) } == OK)
}

const OK: c_int = raw::REDISMODULE_OK as c_int;

fn register_one(
    ctx: *mut raw::RedisModuleCtx,
    entry: &CommandEntry,
    own_categories: bool,
) -> Result<(), &'static str> {
    let spec = &entry.spec;
    let (first, last) = legacy_range(spec.keys);
    let step = c_int::from(first > 0);
    let status = api!(RedisModule_CreateCommand(
        ctx,
        spec.name.as_ptr(),
        Some(entry.handler),
        spec.flags.as_ptr(),
        first,
        last,
        step
    ));
    if status != OK {
        return Err("the name is already registered");
    }
    let command = api!(RedisModule_GetCommand(ctx, spec.name.as_ptr()));
    describe(command, spec)?;
    set_categories(command, spec.categories, own_categories)
}

/// The first and last key as one range. `describe` replaces it by the key specifications.
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
    // A zeroed entry ends the list.
    // SAFETY: the structure has integers, pointers and unions of integers, for which zeros are valid.
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
        _ => Err("the server refused the description"),
    }
}

fn raw_key_spec(key: &KeySpec) -> raw::RedisModuleCommandKeySpec {
    // SAFETY: as in `describe`; every field that the server reads for these two types is set below.
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
    spec.fk.range.keystep = key.step;
    spec.fk.range.limit = 0;
    spec
}

/// A list of arguments in the server's form, with the lists of subarguments that it points to.
struct RawArgs {
    list: Vec<raw::RedisModuleCommandArg>,
    _parts: Vec<RawArgs>,
}

impl RawArgs {
    fn new(args: &[Arg]) -> Self {
        let mut parts = Vec::new();
        let mut list: Vec<_> = args.iter().map(|arg| raw_arg(arg, &mut parts)).collect();
        // SAFETY: as in `describe`.
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
        let list = part.list.as_mut_ptr(); // valid after `part` moves: it points to the heap
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

/// Sets the ACL categories of a command. Its first category is the module's own, which older servers lack.
fn set_categories(
    command: *mut raw::RedisModuleCommand,
    categories: &CStr,
    own_categories: bool,
) -> Result<(), &'static str> {
    // SAFETY: the pointer is set once, before other code of the module runs.
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
    // SAFETY: `command` comes from the server, and the tail of a C string is a C string.
    match unsafe { set(command, categories.as_ptr().add(skip)) } {
        OK => Ok(()),
        _ => Err("the server refused the ACL categories"),
    }
}
