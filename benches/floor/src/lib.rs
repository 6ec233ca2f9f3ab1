//! A plain module, the lower bound for `scripts/bench`: five 40-bit counters per key, with raw handlers and without
//! options, saturation, events or persistence.
//!
//! The difference between its commands and the server's own is the cost of the module API; the difference between its
//! commands and `CINT.*` is the cost of CountInt.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw;

/// The number of counters of an object.
const LEN: usize = 5;
/// The bytes of a counter.
const FIELD_BYTES: usize = 5;
/// The maximum number of arguments after the key.
const MAX_ARGS: usize = 2 * LEN;

/// An object: its length, as in a CountInt, and its counters.
#[repr(C)]
struct Object {
    len: u16,
    fields: [[u8; FIELD_BYTES]; LEN],
}

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(std::ptr::null_mut());

type Ctx = *mut raw::RedisModuleCtx;
type Args = *mut *mut raw::RedisModuleString;

macro_rules! api {
    ($name:ident ( $($arg:expr),* $(,)? )) => {{
        // SAFETY: the pointer was set when the module was loaded; the arguments are handles of the current call.
        unsafe { (raw::$name.unwrap_unchecked())($($arg),*) }
    }};
}

/// Registers the type and the commands. The server calls it when it loads the module.
///
/// # Safety
/// `ctx` must be a handle from the server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(ctx: Ctx, _argv: Args, _argc: c_int) -> c_int {
    const ERR: c_int = raw::REDISMODULE_ERR as c_int;
    let version = raw::REDISMODULE_APIVER_1 as c_int;
    // SAFETY: `ctx` is the server's handle; the name is NUL-terminated.
    if unsafe { raw::Export_RedisModule_Init(ctx, c"floor".as_ptr(), 1, version) } == ERR {
        return ERR;
    }
    // SAFETY: a zeroed table has no callbacks; the server checks the version.
    let mut methods: raw::RedisModuleTypeMethods = unsafe { std::mem::zeroed() };
    methods.version = 4;
    methods.free = Some(free);
    let kind = api!(RedisModule_CreateDataType(
        ctx,
        c"FloorCnt5".as_ptr(),
        0,
        &mut methods
    ));
    TYPE.store(kind, Relaxed);
    let commands: [(&CStr, raw::RedisModuleCmdFunc, &CStr); 3] = [
        (c"floor.incrby", Some(incrby), c"write deny-oom fast"),
        (c"floor.batchincr", Some(batchincr), c"write deny-oom"),
        (c"floor.dump", Some(dump), c"readonly"),
    ];
    for (name, handler, flags) in commands {
        let (name, flags) = (name.as_ptr(), flags.as_ptr());
        if api!(RedisModule_CreateCommand(
            ctx, name, handler, flags, 1, 1, 1
        )) == ERR
        {
            return ERR;
        }
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn free(value: *mut c_void) {
    api!(RedisModule_Free(value));
}

/// Parses argument `i`, which must exist, as the server parses integers.
fn integer(argv: Args, i: usize) -> Option<i64> {
    let mut value = 0;
    // SAFETY: the callers have checked `argc`.
    let string = unsafe { *argv.add(i) };
    let status = api!(RedisModule_StringToLongLong(string, &mut value));
    (status == raw::REDISMODULE_OK as c_int).then_some(value)
}

/// Opens the key named by the first argument.
fn open(ctx: Ctx, argv: Args, mode: u32) -> *mut raw::RedisModuleKey {
    // SAFETY: every command has checked that `argc` includes the key.
    let name = unsafe { *argv.add(1) };
    api!(RedisModule_OpenKey(ctx, name, mode as c_int))
}

/// The object at an open key, if it has our type.
fn object<'a>(key: *mut raw::RedisModuleKey) -> Option<&'a mut Object> {
    if api!(RedisModule_ModuleTypeGetType(key)) != TYPE.load(Relaxed) {
        return None;
    }
    let value = api!(RedisModule_ModuleTypeGetValue(key)).cast::<Object>();
    // SAFETY: the key has our type, so its value is what `create` stored.
    unsafe { value.as_mut() }
}

/// Stores an object of zeros at a missing key.
fn create<'a>(key: *mut raw::RedisModuleKey) -> Option<&'a mut Object> {
    if api!(RedisModule_KeyType(key)) as isize != raw::REDISMODULE_KEYTYPE_EMPTY {
        return None;
    }
    let value = api!(RedisModule_Calloc(1, size_of::<Object>()));
    api!(RedisModule_ModuleTypeSetValue(
        key,
        TYPE.load(Relaxed),
        value
    ));
    // SAFETY: a new, zeroed allocation of that size is a valid object; the server aborts when out of memory.
    let object = unsafe { value.cast::<Object>().as_mut() }?;
    object.len = LEN as u16;
    Some(object)
}

impl Object {
    fn add(&mut self, idx: i64, delta: i64) -> Option<i64> {
        let field = self.fields.get_mut(usize::try_from(idx).ok()?)?;
        let [a, b, c, d, e] = *field;
        let value = i64::from_be_bytes([0, 0, 0, a, b, c, d, e]) + delta;
        let [_, _, _, bytes @ ..] = value.to_be_bytes();
        *field = bytes;
        Some(value)
    }
}

fn reply_error(ctx: Ctx) -> c_int {
    api!(RedisModule_ReplyWithError(
        ctx,
        c"ERR not one of five counters".as_ptr()
    ))
}

/// `FLOOR.INCRBY key idx delta`
unsafe extern "C" fn incrby(ctx: Ctx, argv: Args, argc: c_int) -> c_int {
    if argc != 4 {
        return api!(RedisModule_WrongArity(ctx));
    }
    let (Some(idx), Some(delta)) = (integer(argv, 2), integer(argv, 3)) else {
        return reply_error(ctx);
    };
    let key = open(ctx, argv, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE);
    let object = object(key).or_else(|| create(key));
    let value = object.and_then(|object| object.add(idx, delta));
    api!(RedisModule_CloseKey(key));
    let Some(value) = value else {
        return reply_error(ctx);
    };
    api!(RedisModule_ReplicateVerbatim(ctx));
    api!(RedisModule_ReplyWithLongLong(ctx, value))
}

/// `FLOOR.BATCHINCR key idx delta [idx delta ...]`
unsafe extern "C" fn batchincr(ctx: Ctx, argv: Args, argc: c_int) -> c_int {
    let count = (argc as usize).saturating_sub(2);
    if count == 0 || !count.is_multiple_of(2) || count > MAX_ARGS {
        return api!(RedisModule_WrongArity(ctx));
    }
    let mut numbers = [0; MAX_ARGS];
    for (i, number) in numbers[..count].iter_mut().enumerate() {
        match integer(argv, 2 + i) {
            Some(value) => *number = value,
            None => return reply_error(ctx),
        }
    }
    let key = open(ctx, argv, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE);
    let result = object(key).or_else(|| create(key)).and_then(|object| {
        let (pairs, _) = numbers[..count].as_chunks_mut::<2>();
        pairs
            .iter_mut()
            .try_for_each(|[idx, delta]| object.add(*idx, *delta).map(|value| *delta = value))
    });
    api!(RedisModule_CloseKey(key));
    if result.is_none() {
        return reply_error(ctx);
    }
    api!(RedisModule_ReplicateVerbatim(ctx));
    api!(RedisModule_ReplyWithArray(ctx, (count / 2) as c_long));
    for value in numbers[..count].iter().skip(1).step_by(2) {
        api!(RedisModule_ReplyWithLongLong(ctx, *value));
    }
    raw::REDISMODULE_OK as c_int
}

/// `FLOOR.DUMP key`
unsafe extern "C" fn dump(ctx: Ctx, argv: Args, argc: c_int) -> c_int {
    if argc != 2 {
        return api!(RedisModule_WrongArity(ctx));
    }
    let key = open(ctx, argv, raw::REDISMODULE_READ);
    if let Some(object) = object(key) {
        api!(RedisModule_ReplyWithArray(ctx, LEN as c_long));
        for &[a, b, c, d, e] in &object.fields {
            let value = i64::from_be_bytes([0, 0, 0, a, b, c, d, e]);
            api!(RedisModule_ReplyWithLongLong(ctx, value));
        }
    } else {
        reply_error(ctx);
    }
    api!(RedisModule_CloseKey(key));
    raw::REDISMODULE_OK as c_int
}
