//! One way to call a function of the server's module API.

/// Calls a function of the module API that every supported server has.
///
/// The function pointers are filled in by `RedisModule_OnLoad` before any of our code runs and never change
/// afterwards. Functions that only newer servers have are `Option`s to be matched on instead (see `registry.rs`).
///
/// The arguments are evaluated before the call and outside of its `unsafe` block, so an unsafe operation in one of them
/// needs a block, and a reason, of its own.
macro_rules! api {
    // The next argument. Each expansion has a `value` of its own, and a `match` keeps temporaries until the call is done.
    (@call $name:ident [$($value:ident)*] $arg:expr $(, $($rest:tt)*)?) => {
        match $arg {
            value => $crate::api::api!(@call $name [$($value)* value] $($($rest)*)?),
        }
    };
    (@call $name:ident [$($value:ident)*]) => {
        // SAFETY: the pointer was set while the module was loaded and the arguments are handles that the server gave
        // us for the current call (or buffers that outlive it), as each caller's types ensure.
        unsafe {
            match redis_module::raw::$name {
                Some(function) => function($($value),*),
                None => $crate::api::missing(stringify!($name)),
            }
        }
    };
    ($name:ident ( $($args:tt)* )) => {
        $crate::api::api!(@call $name [] $($args)*)
    };
}
pub(crate) use api;

/// A function that every supported server has was not there.
#[cold]
pub fn missing(name: &str) -> ! {
    panic!("the server lacks {name}; CountInt needs Redis 7.0 or newer, or Valkey 8.0 or newer")
}
