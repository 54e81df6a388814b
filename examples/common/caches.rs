//! The caches of a core as reported by Linux. On systems without this report, the list is empty.

use std::fs;

/// A cache that holds data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cache {
    pub(crate) level: usize,
    pub(crate) bytes: usize,
    /// Number of cores that share the cache.
    pub(crate) cores: usize,
}

/// Returns the data caches of the first core, nearest first.
pub(crate) fn data_caches() -> Vec<Cache> {
    let mut caches: Vec<Cache> = (0..).map_while(read).flatten().collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// Reads the cache with this index. Returns `None` if there is no such cache, and `Some(None)` for an instruction
/// cache.
fn read(number: usize) -> Option<Option<Cache>> {
    let file = |name| fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{number}/{name}")).ok();
    let kind = file("type")?;
    let cache = Cache {
        level: file("level")?.trim().parse().ok()?,
        bytes: bytes(file("size")?.trim())?,
        cores: cores(file("shared_cpu_list")?.trim())?,
    };
    Some((kind.trim() != "Instruction").then_some(cache))
}

/// Parses a size such as `512K` or `32M`.
fn bytes(text: &str) -> Option<usize> {
    let unit = match text.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        _ => return text.parse().ok(),
    };
    Some(text[..text.len() - 1].parse::<usize>().ok()? * unit)
}

/// Counts the cores in a list such as `0-1,4`.
fn cores(text: &str) -> Option<usize> {
    let of_part = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(last.parse::<usize>().ok()? + 1 - first.parse::<usize>().ok()?),
        None => part.parse::<usize>().ok().map(|_| 1),
    };
    text.split(',').map(of_part).sum()
}
