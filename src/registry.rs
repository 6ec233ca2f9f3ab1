//! Loads the module: options, types, commands, settings and `INFO`, in the order that the server requires.

use std::ffi::CStr;

use countint_core::countint::MAX_LEN;
use redis_module::{Context, RedisString, Status};

use crate::server::info::{self, InfoSource};
use crate::server::log::log;
use crate::server::register::{self, CommandEntry};
use crate::server::{guard, setting};
use crate::{config, stats};

/// The module's own ACL categories.
const ACL_CATEGORIES: [&CStr; 2] = [c"countint", c"rbm"];

/// Registers a data type. The error is a message for the server's log.
pub type RegisterType = fn(&Context) -> Result<(), String>;

/// Registers everything when the server loads the module.
pub fn load(
    ctx: &Context,
    args: &[RedisString],
    types: &[RegisterType],
    commands: &[CommandEntry],
) -> Status {
    match guard::catch(|| register(ctx, args, types, commands)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(message)) => {
            log(c"warning", &message);
            Status::Err
        }
        Err(_) => Status::Err, // the panic hook has logged it
    }
}

fn register(
    ctx: &Context,
    args: &[RedisString],
    types: &[RegisterType],
    commands: &[CommandEntry],
) -> Result<(), String> {
    guard::install_panic_hook();
    register::set_options(ctx);
    for register_type in types {
        register_type(ctx)?;
    }
    register::register(ctx, commands, &ACL_CATEGORIES)?;
    register_settings(ctx, args)?;
    info::register::<Info>(ctx);
    Ok(())
}

/// Registers `countint.default-len`, whose default is an argument of `loadmodule`, and applies the configuration file.
fn register_settings(ctx: &Context, args: &[RedisString]) -> Result<(), &'static str> {
    let args: Vec<&[u8]> = args.iter().map(RedisString::as_slice).collect();
    let default = config::parse_args(&args)?;
    let range = 0..=MAX_LEN as i64;
    let value = config::default_len_value();
    if setting::register_integer(ctx, config::DEFAULT_LEN, default, range, value)
        && setting::load(ctx)
    {
        Ok(())
    } else {
        Err("countint: cannot register the setting countint.default-len")
    }
}

/// The section `countint` of `INFO`.
struct Info;

impl InfoSource for Info {
    fn fields() -> Vec<(&'static CStr, u64)> {
        let [cint_objects, cint_fields, cint_bytes] = stats::COUNTINT.get();
        let [rbm_objects, rbm_members, rbm_bytes] = stats::IDSET.get();
        let [ctab_objects, ctab_rows, ctab_bytes] = stats::COUNTTAB.get();
        let [marks, unmarks, duplicate_applies, partial_applies] = stats::mark_and_apply_counts();
        vec![
            (c"cint_objects", cint_objects),
            (c"cint_fields", cint_fields),
            (c"cint_bytes", cint_bytes),
            (c"rbm_objects", rbm_objects),
            (c"rbm_members", rbm_members),
            (c"rbm_bytes", rbm_bytes),
            (c"ctab_objects", ctab_objects),
            (c"ctab_rows", ctab_rows),
            (c"ctab_bytes", ctab_bytes),
            (c"saturations", stats::saturations()),
            (c"marks", marks),
            (c"unmarks", unmarks),
            (c"duplicate_applies", duplicate_applies),
            (c"partial_applies", partial_applies),
            (c"rejected_loads", stats::rejected_loads()),
        ]
    }
}
