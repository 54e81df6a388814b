//! Allocation and page-locking: scratch memory, reductions, exact pieces, and devices that refuse.

use super::drivers::{Report, sanitizes};
use super::{on_both, programs, report};

#[test]
fn reductions_stay_on_the_device() {
    on_both(|settings| {
        let Some(report) = report(settings, "reductions") else { return };
        if !sanitizes() {
            assert_eq!(report.of("blocking copies"), 0, "{report:?}");
            // Each total is copied once, when the program reads it.
            assert_eq!(report.of("copies out"), programs::TOTALS as i64, "{report:?}");
        }
    });
}

#[test]
fn cached_scratch_memory_makes_room() {
    on_both(|settings| _ = report(&settings.clone().with("STANDIN_MEMORY", 12 << 20), "scratch"));
}

#[test]
fn device_with_less_memory_than_reported_is_handled() {
    on_both(|settings| {
        for holds in [2 << 20, 3 << 20, 5 << 20] {
            let Some(report) = report(&settings.clone().with("STANDIN_HOLDS", holds), "shortage") else { return };
            assert!(report.of("refused allocations") > 0, "{report:?}");
        }
        _ = report(&settings.clone().with("STANDIN_HOLDS", 1 << 20), "working_set_too_large");
    });
}

#[test]
fn single_refused_allocation_is_survived() {
    on_both(|settings| {
        for number in [1, 2, 3, 4, 5, 7, 9] {
            let Some(report) = report(&settings.clone().with("STANDIN_REFUSE", number), "shortage") else { return };
            assert_eq!(report.of("refused allocations"), 1, "{report:?}");
        }
    });
}

#[test]
fn array_is_page_locked_for_its_second_copy() {
    on_both(|settings| {
        let Some(report) = report(settings, "large_arrays") else { return };
        assert_eq!(report.of("page-locked bytes") - report.of("staging bytes"), 8 << 18, "{report:?}");
    });
}

/// Each piece of memory has the requested size and is freed after its task, so compute-sanitizer finds bad accesses.
#[test]
fn exact_memory_is_not_reused() {
    on_both(|settings| {
        let allocations = |report: &Report| report.of("cuMemAlloc_v2") + report.of("hipMalloc");
        let Some(usual) = report(settings, "scratch_in_a_chain") else { return };
        assert!(allocations(&usual) < programs::WITH_SCRATCH as i64, "{usual:?}");
        let exact = report(&settings.clone().with("THALWEG_EXACT_MEMORY", 1), "scratch_in_a_chain").unwrap();
        assert!(allocations(&exact) > programs::WITH_SCRATCH as i64, "{exact:?}");
    });
}

#[test]
fn array_is_page_locked_on_request() {
    on_both(|settings| {
        let Some(report) = report(settings, "pin_memory") else { return };
        assert_eq!(report.of("page-locked bytes") - report.of("staging bytes"), 8000, "{report:?}");
    });
}
