//! Memory that others own, that is lent to them, that all devices share, or that peers reach.

use super::drivers::{Report, sanitizes};
use super::{on_both, report, unified};

/// The runtime may neither lock such memory again nor unlock it.
#[test]
fn memory_locked_by_others_is_used_as_it_is() {
    on_both(|settings| {
        let Some(report) = report(settings, "memory::owned::locked_by_others") else { return };
        let locks = report.of("page-locked bytes") - report.of("staging bytes");
        assert!((2 << 20..4 << 20).contains(&locks), "only the owner's: {report:?}");
    });
}

#[test]
fn adopted_device_memory_is_used_in_place() {
    on_both(|settings| {
        let Some(report) = report(settings, "memory::imported::adopted") else { return };
        if !sanitizes() {
            assert_eq!(report.of("copies in"), 2, "only the array's producer may copy: {report:?}");
        }
        _ = self::report(settings, "memory::imported::adopted_with_gaps");
        _ = self::report(&settings.clone().with("STANDIN_MEMORY", 72_000), "memory::imported::adopted_and_evicted");
        for peers in [0, 1] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_PEERS", peers);
            _ = self::report(&settings, "memory::imported::adopted_beside_others");
        }
        _ = self::report(&settings.clone().with("STANDIN_DEVICES", 2), "memory::imported::refused");
    });
}

#[test]
fn exported_device_memory_is_used_in_place() {
    on_both(|settings| {
        let Some(report) = report(settings, "memory::exported::lent") else { return };
        assert!(report.of("copies in") < 10, "exporting must not copy each time: {report:?}");
        _ = self::report(settings, "memory::exported::lent_to_be_written");
        _ = self::report(
            &settings.clone().with("STANDIN_MEMORY", 40_000),
            "memory::exported::lent_while_others_need_the_room",
        );
        _ = self::report(settings, "memory::exported::lent_to_another_runtime");
    });
}

#[test]
fn users_binding_to_a_device_is_restored() {
    on_both(|settings| _ = report(&settings.clone().with("STANDIN_DEVICES", 2), "memory::owned::users_binding_stays"));
}

fn unified_allocations(report: &Report) -> i64 {
    report.of("cuMemAllocManaged") + report.of("hipMallocManaged")
}

#[test]
fn unified_memory_is_used_in_place() {
    on_both(|settings| {
        let small = settings.clone().with("STANDIN_MEMORY", 72_000);
        let Some(report) = report(&small, "unified::larger_than_a_device") else { return };
        assert_eq!((unified_allocations(&report), report.of("unified bytes")), (1, 8 * unified::LARGE as i64));
        assert!(report.of("prefetches to devices") > 0 && report.of("page-locked bytes") == report.of("staging bytes"));
        let report = self::report(settings, "unified::replayed").expect("the stand-in is available");
        let copies = report.of("copies in") + report.of("copies out") + report.of("copies across");
        assert!(copies == 0 && report.of("graph launches") > 0, "{report:?}");
        let report = self::report(settings, "unified::dropped").expect("the stand-in is available");
        assert_eq!(unified_allocations(&report), 23, "{report:?}");
        for peers in [0, 1] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_PEERS", peers);
            _ = self::report(&settings, "unified::across_devices");
        }
    });
}

#[test]
fn unified_memory_matches_sequential_execution() {
    on_both(|settings| {
        for devices in [1, 2] {
            let settings = settings.clone().with("STANDIN_DEVICES", devices);
            let Some(report) = report(&settings, "unified::random_programs") else { return };
            assert!(report.of("prefetches to the host") > 0, "{report:?}");
        }
        // The kernels are so slow that a task that fails to wait for them would overtake them.
        let slow = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_DELAY_US", 1000);
        _ = report(&slow, "unified::overwritten_behind_readers");
    });
}

#[test]
fn unified_array_is_ordinary_without_unified_memory() {
    on_both(|settings| {
        for name in ["STANDIN_MANAGED", "STANDIN_CONCURRENT"] {
            let Some(report) = report(&settings.clone().with(name, 0), "unified::ordinary") else { return };
            assert_eq!(unified_allocations(&report), 0, "{report:?}");
        }
        let report = self::report(&settings.clone().with("STANDIN_REFUSE_MANAGED", 0), "unified::ordinary");
        assert_eq!(unified_allocations(&report.expect("the stand-in is available")), 1);
    });
}

/// Tasks across two devices, with and without access to each other's memory.
#[test]
fn tasks_across_devices_work_with_and_without_peer_access() {
    on_both(|settings| {
        let settings = settings.clone().with("STANDIN_DEVICES", 2);
        let Some(report) = report(&settings, "across::peers") else { return };
        assert!(report.of("reaches for peers") > 0, "{report:?}");
        let report = self::report(&settings.clone().with("STANDIN_PEERS", 0), "across::peers")
            .expect("the stand-in is available");
        assert_eq!(report.of("reaches for peers"), 0, "{report:?}");
        self::report(&settings, "across::raw");
    });
}
