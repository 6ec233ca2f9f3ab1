//! The Lua scripts that CountInt's commands replace. Templates call them as `EVALSHA <script:NAME>`.

use crate::driver::control::Control;
use crate::error::Result;

/// Names and sources.
const SCRIPTS: [(&str, &str); 6] = [
    // One counter of a packed String: unpacks five bytes, adds, packs them again.
    (
        "incr",
        "local s=redis.call('GET',KEYS[1]) or string.rep('\\0',25) local at=ARGV[1]*5 \
         local v=struct.unpack('>I5',s,at+1)+ARGV[2] if v<0 then v=0 elseif v>1099511627775 then v=1099511627775 end \
         redis.call('SETRANGE',KEYS[1],at,struct.pack('>I5',v)) return v",
    ),
    // Five counters: unpacks and packs the whole String.
    (
        "batch",
        "local s=redis.call('GET',KEYS[1]) or string.rep('\\0',25) local f={struct.unpack('>I5I5I5I5I5',s)} local r={} \
         for i=1,#ARGV,2 do local at=ARGV[i]+1 local v=f[at]+ARGV[i+1] \
         if v<0 then v=0 elseif v>1099511627775 then v=1099511627775 end f[at]=v r[#r+1]=v end \
         redis.call('SETRANGE',KEYS[1],0,struct.pack('>I5I5I5I5I5',f[1],f[2],f[3],f[4],f[5])) return r",
    ),
    // One counter with BITFIELD, which supports 40-bit fields.
    (
        "bitfield",
        "return redis.call('BITFIELD',KEYS[1],'OVERFLOW','SAT','INCRBY','u40','#'..ARGV[1],ARGV[2])[1]",
    ),
    // Five counters with BITFIELD.
    (
        "bitfield-batch",
        "local a={'OVERFLOW','SAT'} for i=1,#ARGV,2 do local n=#a a[n+1]='INCRBY' a[n+2]='u40' a[n+3]='#'..ARGV[i] \
         a[n+4]=ARGV[i+1] end return redis.call('BITFIELD',KEYS[1],unpack(a))",
    ),
    // Adds a fact, counts it and appends its event, atomically; and the reverse.
    (
        "mark",
        "if redis.call('SADD',KEYS[1],ARGV[1])==1 then local n=redis.call('HINCRBY',KEYS[2],'like',1) \
         redis.call('XADD',KEYS[3],'MAXLEN','~',100000,'*','uid',ARGV[1],'delta',1) return {1,n} end return {0,false}",
    ),
    (
        "unmark",
        "if redis.call('SREM',KEYS[1],ARGV[1])==1 then local n=redis.call('HINCRBY',KEYS[2],'like',-1) \
         redis.call('XADD',KEYS[3],'MAXLEN','~',100000,'*','uid',ARGV[1],'delta',-1) return {1,n} end return {0,false}",
    ),
];

/// The scripts that `commands` call: names and sources.
pub fn called_by(commands: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let called = |(name, _): &(&str, &str)| commands.contains(&placeholder(name));
    SCRIPTS.into_iter().filter(called)
}

/// Loads the scripts that `commands` call into the server and replaces their placeholders with their SHA-1.
pub fn resolve(commands: &str, control: &mut Control) -> Result<String> {
    let mut resolved = commands.to_string();
    for (name, script) in called_by(commands) {
        let sha = control.call_words(&["SCRIPT", "LOAD", script])?;
        resolved = resolved.replace(&placeholder(name), &sha);
    }
    Ok(resolved)
}

fn placeholder(name: &str) -> String {
    format!("<script:{name}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_by_its_full_name_only() {
        let found: Vec<&str> = called_by("EVALSHA <script:bitfield-batch> 1 k")
            .map(|(name, _)| name)
            .collect();
        assert_eq!(found, ["bitfield-batch"]);
        assert_eq!(called_by("GET k").count(), 0);
    }
}
