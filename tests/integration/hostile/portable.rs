//! Builds the portable 64-bit Roaring format field by field, so that any field can be invalid, and the blobs of saved
//! sets.

use countint_tests::payload::Body;

/// One container: its header and its bytes.
#[derive(Clone)]
pub struct Container {
    pub key: u16,
    /// The cardinality minus one, as stored in the header.
    pub less_one: u16,
    pub run: bool,
    pub payload: Vec<u8>,
}

/// An array container. Readers take a container of more than 4,096 members for a bitmap.
pub fn array(key: u16, lows: &[u16]) -> Container {
    Container {
        key,
        less_one: (lows.len() as u16).wrapping_sub(1),
        run: false,
        payload: lows.iter().flat_map(|low| low.to_le_bytes()).collect(),
    }
}

/// A bitmap container.
pub fn bitmap(key: u16, lows: impl IntoIterator<Item = u16>) -> Container {
    let mut payload = vec![0; 8192];
    let mut len = 0usize;
    for low in lows {
        payload[usize::from(low) / 8] |= 1 << (low % 8);
        len += 1;
    }
    Container {
        key,
        less_one: len.wrapping_sub(1) as u16,
        run: false,
        payload,
    }
}

/// A run container; each run is its start and its length minus one.
pub fn runs(key: u16, runs: &[(u16, u16)]) -> Container {
    let len: u32 = runs
        .iter()
        .map(|(_, less_one)| u32::from(*less_one) + 1)
        .sum();
    let mut payload = (runs.len() as u16).to_le_bytes().to_vec();
    for (start, less_one) in runs {
        payload.extend_from_slice(&start.to_le_bytes());
        payload.extend_from_slice(&less_one.to_le_bytes());
    }
    Container {
        key,
        less_one: len.wrapping_sub(1) as u16,
        run: true,
        payload,
    }
}

impl Container {
    /// The same with another cardinality in its header.
    pub fn claims(mut self, cardinality: u32) -> Container {
        self.less_one = cardinality.wrapping_sub(1) as u16;
        self
    }
}

/// One 32-bit bitmap.
pub fn half(containers: &[Container]) -> Vec<u8> {
    half_with(containers, containers.len(), 0)
}

/// One 32-bit bitmap that states `n` containers, with offsets `shift` too large.
pub fn half_with(containers: &[Container], n: usize, shift: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let has_runs = containers.iter().any(|c| c.run);
    if has_runs {
        out.extend_from_slice(&(12347 | (n as u32).wrapping_sub(1) << 16).to_le_bytes());
        let mut flags = vec![0u8; n.div_ceil(8)];
        for (i, _) in containers.iter().enumerate().filter(|(_, c)| c.run) {
            flags[i / 8] |= 1 << (i % 8);
        }
        out.extend_from_slice(&flags);
    } else {
        out.extend_from_slice(&12346u32.to_le_bytes());
        out.extend_from_slice(&(n as u32).to_le_bytes());
    }
    for c in containers {
        out.extend_from_slice(&c.key.to_le_bytes());
        out.extend_from_slice(&c.less_one.to_le_bytes());
    }
    if !has_runs || n >= 4 {
        let mut offset = (out.len() + 4 * containers.len()) as u32 + shift;
        for c in containers {
            out.extend_from_slice(&offset.to_le_bytes());
            offset += c.payload.len() as u32;
        }
    }
    containers
        .iter()
        .for_each(|c| out.extend_from_slice(&c.payload));
    out
}

/// A set of 32-bit bitmaps, each with its high 32 bits.
pub fn set(halves: &[(u32, Vec<u8>)]) -> Vec<u8> {
    set_with(halves, halves.len() as u64)
}

/// A set that states `n` bitmaps.
pub fn set_with(halves: &[(u32, Vec<u8>)], n: u64) -> Vec<u8> {
    let mut out = n.to_le_bytes().to_vec();
    for (high, bitmap) in halves {
        out.extend_from_slice(&high.to_le_bytes());
        out.extend_from_slice(bitmap);
    }
    out
}

/// A set of one bitmap, with high bits 0.
pub fn one_half(containers: &[Container]) -> Vec<u8> {
    set(&[(0, half(containers))])
}

/// A blob of varints: the first number, then the differences minus one.
pub fn varints(steps: &[u64]) -> Vec<u8> {
    let mut out = vec![1];
    for &step in steps {
        let mut rest = step;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out
}

/// A blob in the portable format.
pub fn blob(portable: &[u8]) -> Vec<u8> {
    [&[2], portable].concat()
}

/// The body of a saved set.
pub fn saved(cardinality: u64, blobs: &[Vec<u8>]) -> Vec<u8> {
    let head = Body::module("RoaringBM", 1).unsigned(cardinality);
    blobs
        .iter()
        .fold(head, |body, blob| body.string(blob))
        .string(&[])
        .end()
}
