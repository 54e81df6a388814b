//! OpenCL on cores, with a layer that reports them as a GPU: copies, shortage of memory, and replays as command
//! buffers.

use super::drivers::{OPENCL, Settings, run};
use super::{drivers, graphs, report};

/// Returns settings for OpenCL with a layer that makes a CPU implementation look like a GPU implementation.
fn opencl_gpu() -> Option<Settings> {
    Some(OPENCL.clone().with("OPENCL_LAYERS", drivers::layer()?.display()))
}

#[test]
fn opencl_copies_through_page_locked_memory() {
    let Some(settings) = opencl_gpu() else { return };
    let settings = settings.with("THALWEG_REQUIRE", "opencl").with("POCL_DEVICES", "pthread pthread");
    let built = drivers::built().expect("the layer was built, so everything was");
    let (output, report) = run(&settings, &built.of("conformance"), &["opencl::"]);
    assert!(output.contains("test result: ok. 22 passed; 0 failed; 0 ignored"), "{output}");
    report.is_clean();
    assert_eq!(report.of("pageable copies"), 0, "{report:?}");
    assert!(report.of("locked copies in") > 1000 && report.of("locked copies out") > 1000, "{report:?}");
}

/// OpenCL cannot page-lock existing memory, so large copies go piece by piece through buffers that OpenCL allocates.
#[test]
fn opencl_copies_large_arrays_through_page_locked_memory() {
    let Some(settings) = opencl_gpu() else { return };
    let Some(report) = report(&settings, "large_boxes") else { return };
    assert_eq!(report.of("pageable copies"), 0, "{report:?}");
    // 8 MB are copied three times in each direction, in addition to smaller arrays.
    assert!(report.of("locked copies in") > 24 && report.of("locked copies out") > 24, "{report:?}");
}

/// If the implementation allocates a buffer's memory only at first use, copies and launches may run out of memory.
#[test]
fn opencl_with_lazy_allocation_survives_shortage() {
    let Some(settings) = opencl_gpu() else { return };
    for code in [-4, -5] {
        let settings = settings.clone().with("STANDIN_REFUSAL", code);
        for holds in [2 << 20, 3 << 20, 5 << 20] {
            let Some(report) = report(&settings.clone().with("STANDIN_HOLDS", holds), "shortage") else { return };
            assert!(report.of("refused allocations") > 0, "{report:?}");
        }
        _ = report(&settings.with("STANDIN_HOLDS", 1 << 20), "working_set_too_large");
    }
}

/// OpenCL's command buffers, whose arguments are fixed. They are used if the CPU implementation looks like a GPU
/// implementation.
#[test]
fn opencl_replays_are_launched_as_command_buffers() {
    let Some(settings) = opencl_gpu() else { return };
    let settings = settings.with("POCL_DEVICES", "pthread pthread");
    let of = |program: &str| report(&settings, program).expect("the layer was built");
    let (report, tasks) = (of("graphs::steady_replays_become_graphs"), graphs::CHAINS * (graphs::LENGTH + 1));
    assert_eq!(report.of("graph launches"), graphs::REPLAYS as i64 - 1, "{report:?}");
    assert_eq!(report.launches(), tasks as i64, "only the first replay launches kernels one by one");
    // Of three replays with the same values, the second creates a command buffer and the third reuses it.
    let report = of("graphs::changing_arguments_update_graphs");
    assert_eq!((report.of("graph launches"), report.launches()), (2 * 20 * 2, 2 * 20 * 5), "{report:?}");
    for program in [
        "graphs::graphs_may_use_scratch_memory",
        "graphs::eviction_between_replays_keeps_results",
        "graphs::chains_on_two_devices_become_graphs",
        "graphs::random_replays::random_replays_match_direct_execution",
    ] {
        let report = of(program);
        assert!(report.of("graph launches") > 0, "{program} {report:?}");
    }
    _ = of("graphs::tasks_for_one_device_become_graphs_there");
    _ = of("graphs::spread_loops_become_one_graph_per_device");
}

/// On cores, recorded tasks are also submitted as a whole, but launched one by one.
#[test]
fn opencl_replays_on_cores_match_sequential_execution() {
    if drivers::layer().is_none() {
        return; // no OpenCL here
    }
    let settings = OPENCL.clone().with("POCL_DEVICES", "pthread pthread");
    for program in [
        "steady_replays_become_graphs",
        "changing_arguments_update_graphs",
        "graphs_may_use_scratch_memory",
        "eviction_between_replays_keeps_results",
        "graphs_of_indexed_loops_keep_results",
        "chains_on_two_devices_become_graphs",
        "tasks_for_one_device_become_graphs_there",
        "spread_loops_become_one_graph_per_device",
        "random_replays::random_replays_match_direct_execution",
    ] {
        drivers::run_own(&settings, &format!("graphs::{program}")).expect("the layer was built");
    }
}
