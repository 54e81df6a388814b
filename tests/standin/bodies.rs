//! Bodies that call the interface themselves, and code that compilers and drivers of several releases accept or refuse.

use super::drivers::{CUDA, HIP};
use super::{on_both, raw, report};

#[test]
fn bodies_may_leave_their_thread_bound_to_another_context() {
    on_both(|settings| _ = report(&settings.clone().with("STANDIN_DEVICES", 2), "thread_left_unbound"));
}

#[test]
fn raw_bodies_may_call_the_interface() {
    on_both(|settings| {
        let Some(report) = report(settings, "raw::copies") else { return };
        assert!(report.of("copies across") >= raw::COPIES as i64, "{report:?}");
    });
}

/// Whatever cudarc frees although it is the runtime's would be a leak or a second release.
#[test]
fn cudarc_types_refer_to_streams_and_regions() {
    let Some(report) = report(&CUDA, "raw::cudarc_types") else { return };
    assert!(report.of("copies across") >= raw::COPIES as i64, "{report:?}");
    assert_eq!(report.of("cuMemFree_v2"), report.of("cuMemAlloc_v2"));
}

#[test]
fn gpu_unit_runs_raw_bodies_of_its_interface() {
    on_both(|settings| _ = report(settings, "raw::on_any_gpu"));
}

#[test]
fn failing_raw_body_fails_its_task_alone() {
    on_both(|settings| _ = report(settings, "raw::failures"));
}

/// AMD's runtime ends the process in this case, so this is tested only on CUDA.
#[test]
fn raw_body_that_breaks_the_device_loses_it() {
    report(&CUDA, "raw::breaks_the_device");
}

#[test]
fn custom_modules_run_on_both_interfaces() {
    on_both(|settings| _ = report(settings, "raw::modules"));
}

/// A launch may request clusters and cooperation; a device may lack them.
#[test]
fn launch_shapes_reach_the_driver_or_are_refused() {
    let Some(report) = report(&CUDA, "raw::launch_shapes") else { return };
    assert_eq!((report.of("launches in clusters of 3"), report.of("cooperative launches")), (2, 6), "{report:?}");
    let of_bytes = [1000, 2000, 100_000].map(|bytes| report.of(&format!("launches with {bytes} shared bytes")));
    assert_eq!((of_bytes, report.of("cuFuncSetAttribute")), ([1, 1, 2], 2), "permission is requested once: {report:?}");
    let report = self::report(&CUDA.clone().with("STANDIN_ARCH", 80), "raw::launch_shapes").unwrap();
    assert_eq!((report.sum("launches in clusters"), report.of("cooperative launches")), (0, 5), "{report:?}");
    let report = self::report(&HIP, "raw::launch_shapes").unwrap();
    assert_eq!((report.of("launches with 1000 shared bytes"), report.of("cooperative launches")), (1, 5), "{report:?}");
}

#[test]
fn code_refused_by_the_driver_fails_its_task() {
    on_both(|settings| _ = report(settings, "raw::refused_code"));
}

#[test]
fn compiler_and_driver_of_different_releases_work_together() {
    // A driver of the same major release accepts the code, including code for an older architecture of the same
    // generation.
    let newer = CUDA.clone().with("STANDIN_DRIVER", 12040).with("STANDIN_NVRTC", 12080).with("STANDIN_ARCH", 89);
    let Some(_) = report(&newer, "single_task") else { return };
    // If a driver refuses the code, it is given PTX instead.
    report(&CUDA.clone().with("STANDIN_REFUSE_CODE", 1), "single_task");
    // A compiler of the next major release cannot be used.
    let expected = "try a compiler that is not newer than the driver";
    let too_new = newer.with("STANDIN_NVRTC", 13000).with("STANDIN_EXPECTED", expected);
    report(&too_new, "without_a_compiler");
}

#[test]
fn cached_code_runs_without_a_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    let settings = CUDA.clone().with("STANDIN_NVRTC", 0).with("THALWEG_CACHE_DIR", &cache);
    let settings = settings.with("STANDIN_EXPECTED", "NVRTC does not start");
    let Some(_) = report(&settings, "without_a_compiler") else { return };
    report(&CUDA.clone().with("THALWEG_CACHE_DIR", &cache), "single_task");
    let report = report(&settings, "single_task").unwrap();
    assert_eq!((report.of("compilations"), report.launches()), (0, 1), "{report:?}");
}
