//! The macro through which the module calls functions of the module API.

/// Calls a function of the module API that every supported server has.
///
/// `RedisModule_OnLoad` sets the function pointers before any other code of the module runs, and they never change
/// afterwards. Functions that only newer servers have are `Option`s to be matched on instead (see `register.rs`).
///
/// The arguments are evaluated before the call and outside its `unsafe` block, so an unsafe operation in an argument
/// needs an `unsafe` block of its own.
macro_rules! api {
    // The next argument. Each expansion has its own `value`, and a `match` keeps temporaries alive until the call.
    (@call $name:ident [$($value:ident)*] $arg:expr $(, $($rest:tt)*)?) => {
        match $arg {
            value => $crate::server::api::api!(@call $name [$($value)* value] $($($rest)*)?),
        }
    };
    (@call $name:ident [$($value:ident)*]) => {
        // SAFETY: the pointer was set while the module was loaded. The arguments are handles that the server gave for
        // the current call, or buffers that outlive it; the caller's types ensure that.
        unsafe {
            match redis_module::raw::$name {
                Some(function) => function($($value),*),
                None => $crate::server::api::missing(stringify!($name)),
            }
        }
    };
    ($name:ident ( $($args:tt)* )) => {
        $crate::server::api::api!(@call $name [] $($args)*)
    };
}
pub(crate) use api;

/// Reports a missing function that every supported server has.
#[cold]
pub fn missing(name: &str) -> ! {
    panic!("the server lacks {name}; CountInt needs Redis 7.0 or newer, or Valkey 8.0 or newer")
}
