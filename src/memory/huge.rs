//! Huge pages for large arrays, on systems that leave the choice to programs (`madvise` in Linux's
//! `transparent_hugepage/enabled`). With huge pages, a sweep over many megabytes needs one address translation instead
//! of 512.
//!
//! The request is only advice: no memory is touched, moved or promised, and the system's answer is ignored.

/// The minimum size of an array for which huge pages are requested. A smaller array might not contain a whole huge
/// page. Several small arrays cannot share a huge page, because an allocator writes a header before each array, and the
/// system installs no huge page where an ordinary page already exists.
pub(super) const LEAST_BYTES: usize = 4 << 20;

/// The size of a huge page on almost all systems.
pub(super) const PAGE_BYTES: usize = 2 << 20;

/// Requests huge pages for all ordinary pages that overlap this memory, which belongs to the process.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn advise(base: *mut u8, bytes: usize) {
    const PAGE: usize = 4096;
    let before = base.addr() % PAGE;
    let length = (before + bytes).next_multiple_of(PAGE);
    // SAFETY: advice on how to back memory does not change its content, and if pages are larger, the call is refused.
    unsafe { libc::madvise(base.wrapping_sub(before).cast(), length, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn advise(_: *mut u8, _: usize) {}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use super::super::HostBuffer;

    /// Returns whether huge pages are requested at this address; `None` if the system does not support them.
    fn asked_for(address: usize) -> Option<bool> {
        std::fs::metadata("/sys/kernel/mm/transparent_hugepage").ok()?;
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut here = false;
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let first = words.next()?;
            if let Some((begin, end)) = first.split_once('-') {
                let range = usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
                here = range.contains(&address);
            } else if here && first == "VmFlags:" {
                return Some(words.any(|flag| flag == "hg"));
            }
        }
        None
    }

    #[test]
    fn large_zeroed_arrays_request_huge_pages() {
        const LEN: usize = 64 << 20;
        let buffer = HostBuffer::zeros::<u8>(LEN, 3);
        for place in [0, LEN / 2, LEN - 1] {
            let asked = asked_for(buffer.first().addr() + place);
            assert_ne!(asked, Some(false), "at byte {place}");
        }
        assert_eq!(buffer.into_vec::<u8>(), vec![0; LEN]);
    }
}
