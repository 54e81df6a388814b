//! CUDA and HIP without a GPU: the real backends run on stand-in drivers, which `tests/standin/core.hpp` describes
//! together with their limitations. Every program runs in a separate process whose dynamic loader finds the stand-in
//! first. The stand-in writes a report of all calls and leaked objects.
//!
//! The tests need the C++ compiler `c++`. Without it, they are skipped unless `THALWEG_REQUIRE` contains `standin`.

#![allow(unsafe_code, unreachable_pub)] // promises about kernel texts; the modules below are parts of this file

#[path = "standin/across.rs"]
mod across;
#[path = "common/cargo.rs"]
mod cargo;
#[path = "standin/copies.rs"]
mod copies;
#[path = "standin/drivers.rs"]
mod drivers;
#[path = "standin/flights.rs"]
mod flights;
#[path = "standin/graphs.rs"]
mod graphs;
#[path = "standin/loops.rs"]
mod loops;
#[path = "standin/memory.rs"]
mod memory;
#[path = "standin/programs.rs"]
mod programs;
#[path = "standin/python.rs"]
mod python;
#[path = "common/random.rs"]
mod random;
#[path = "standin/raw.rs"]
mod raw;
#[path = "standin/shapes.rs"]
mod shapes;
#[path = "standin/unified.rs"]
mod unified;

use drivers::{CUDA, HIP, OPENCL, Report, Settings, run, sanitizes};

/// Runs an example program, which must report that its results are verified.
fn example(settings: &Settings, name: &str, arguments: &str) {
    let Some(built) = drivers::built() else { return };
    let arguments: Vec<_> = arguments.split(' ').chain(["--no-progress"]).collect();
    let (output, report) = run(settings, &built.example(name), &arguments);
    assert_eq!(output.lines().last(), Some("VERIFIED"), "{name} {arguments:?}: {output}");
    report.is_clean();
    report.has_launched();
}

/// Runs the examples on one device, on one device with a core, and on two devices. Slow examples run only in optimized
/// builds, as in CI.
fn examples(settings: &Settings) {
    let kind = settings.units;
    let programs = [
        "jacobi --size 48 --block 24",
        "cg --class S",
        "npb_mz bt --class S",
        "npb_mz sp --class S",
        "npb_mz lu --class S",
        "compact --size 20011",
        "macc_cg --size 12",
        "dg --size 50 --steps 2",
    ];
    for units in [format!("1:{kind}:1"), format!("1:{kind}:1,1:CPU:1"), format!("2:{kind}:1")] {
        let settings = settings.clone().with("STANDIN_DEVICES", 2);
        for program in programs.iter().take(if cfg!(debug_assertions) { 1 } else { programs.len() }) {
            let (name, arguments) = program.split_once(' ').unwrap();
            example(&settings, name, &format!("{arguments} --units {units}"));
        }
    }
}

#[test]
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn examples_on_cuda() {
    examples(&CUDA);
}

#[test]
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn examples_on_hip() {
    examples(&HIP);
}

/// Checks that each stage of a step is one launch for all zones, where single zones take a launch each.
#[test]
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn examples_in_batches_launch_each_stage_once() {
    let Some(built) = drivers::built() else { return };
    // Steps of class S; launches of a zone's step with the exchange; number of zones.
    for (benchmark, steps, stages, zones) in [("bt", 60, 7, 4), ("sp", 100, 8, 4), ("lu", 50, 6, 16)] {
        let launches = |fuse: &str| {
            let arguments = [benchmark, "--class", "S", "--units", "1:CUDA:1", "--fuse", fuse, "--no-progress"];
            let (output, report) = run(&CUDA, &built.example("npb_mz"), &arguments);
            assert_eq!(output.lines().last(), Some("VERIFIED"), "{output}");
            report.is_clean();
            report.launches()
        };
        // With the step before the first; faces are sent twice at the start, and received once at the end.
        let expected = stages * (steps + 1) + 3;
        assert_eq!(launches("batch"), expected, "{benchmark}");
        if benchmark == "sp" {
            assert_eq!(launches("whole"), zones * expected, "{benchmark}");
        }
    }
}

/// Runs the whole conformance suite, which every kind of device has to pass, on two devices. Exact memory lets the
/// stand-in find accesses outside of each piece.
fn conformance(settings: &Settings) {
    let Some(built) = drivers::built() else { return };
    let settings = settings.clone().with("STANDIN_DEVICES", 2).with("THALWEG_REQUIRE", settings.units.to_lowercase());
    let tests = format!("{}::", settings.units.to_lowercase());
    for (variable, value) in [("THALWEG_EXACT_MEMORY", "1"), ("THALWEG_DEVICE_MEMORY", "recycler")] {
        let (output, report) = run(&settings.clone().with(variable, value), &built.of("conformance"), &[&tests]);
        assert!(output.contains("test result: ok. 23 passed; 0 failed; 0 ignored"), "{output}");
        report.is_clean();
    }
}

#[test]
fn conformance_on_cuda() {
    conformance(&CUDA);
}

#[test]
fn conformance_on_hip() {
    conformance(&HIP);
}

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

/// Runs one of our own programs. Checks that it has leaked nothing and broken no rule, and returns its report.
fn report(settings: &Settings, program: &str) -> Option<Report> {
    let report = drivers::run_own(settings, program)?;
    report.is_clean();
    Some(report)
}

/// Runs `test` on both interfaces.
fn on_both(test: impl Fn(&Settings)) {
    test(&CUDA);
    test(&HIP);
}

/// Checks that the issue of each task is a range of the vendor's profiler.
#[test]
fn tasks_have_ranges_of_profilers() {
    let Some(built) = drivers::built() else { return };
    let profiler = CUDA.clone().with("NVTX_INJECTION64_PATH", built.library().display());
    let missing = CUDA.clone().with("NVTX_INJECTION64_PATH", "/no/such/profiler.so");
    for (settings, interface) in [(&CUDA, "NVTX 2"), (&profiler, "NVTX 3"), (&missing, "NVTX 2"), (&HIP, "rocTX")] {
        let report = report(settings, "chain").expect("the stand-in is available");
        let ranges: Vec<_> = report.starting("range of ").collect();
        assert_eq!(ranges, [(format!("range of {interface} next").as_str(), programs::CHAIN as i64)]);
        assert_eq!(report.of("ended ranges"), programs::CHAIN as i64);
    }
}

/// Checks that replays are launched as graphs, except for the first one, for which a graph would not pay off.
#[test]
fn replays_are_launched_as_graphs() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::steady_replays_become_graphs") else { return };
        let (tasks, replays) = (graphs::CHAINS * (graphs::LENGTH + 1), graphs::REPLAYS);
        let others = report.calls() - report.launches();
        println!(
            "{}: {} launches, {others} other calls for {} tasks",
            settings.units,
            report.launches(),
            tasks * replays
        );
        assert_eq!(report.of("graph launches"), (replays - 1) as i64, "{report:?}");
        assert_eq!(report.of("kernels in graphs"), (tasks * (replays - 1)) as i64);
        // The count includes the calls before the first graph and at the end.
        assert!(report.calls() - 2 * tasks as i64 <= (tasks * replays / 10) as i64, "{report:?}");
    });
}

#[test]
fn replays_with_new_parameters_update_graphs() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::changing_arguments_update_graphs") else { return };
        let changes = report.of("cuGraphExecKernelNodeSetParams_v2") + report.of("hipGraphExecKernelNodeSetParams");
        assert!(changes > 0 && report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn replays_on_two_devices_use_graphs() {
    on_both(|settings| {
        let Some(report) =
            report(&settings.clone().with("STANDIN_DEVICES", 2), "graphs::chains_on_two_devices_become_graphs")
        else {
            return;
        };
        assert!(report.of("graph launches") > 0, "{report:?}");
        for program in
            ["graphs::tasks_for_one_device_become_graphs_there", "graphs::spread_loops_become_one_graph_per_device"]
        {
            let report =
                self::report(&settings.clone().with("STANDIN_DEVICES", 2), program).expect("the stand-in is available");
            assert!(report.of("graph launches") > 0, "{program} {report:?}");
        }
    });
}

#[test]
fn replays_with_scratch_memory_use_graphs() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::graphs_may_use_scratch_memory") else { return };
        assert!(report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn replays_of_indexed_tasks_use_graphs() {
    on_both(|settings| {
        let Some(report) =
            report(&settings.clone().with("STANDIN_DEVICES", 2), "graphs::graphs_of_indexed_loops_keep_results")
        else {
            return;
        };
        assert!(report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn replays_use_graphs_when_replicas_are_evicted_in_between() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::eviction_between_replays_keeps_results") else { return };
        assert!(report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn device_loss_during_replays_is_survived() {
    on_both(|settings| {
        for operation in [2, 20, 60] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_LOSE", format!("0:{operation}"));
            let Some(report) = report(&settings, "graphs::device_loss_during_replays_keeps_readable_data") else {
                return;
            };
            assert!(report.of("graph launches") > 0, "{operation} {report:?}");
        }
    });
}

/// Graphs with failing tasks, and with room for only part of the data at a time.
#[test]
fn random_replays_on_devices_match_sequential_execution() {
    on_both(|settings| {
        for memory in [1 << 20, 4500] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_MEMORY", memory);
            let Some(report) = report(&settings, "graphs::random_replays::random_replays_match_direct_execution")
            else {
                return;
            };
            assert!(report.of("graph launches") > 0, "{report:?}");
        }
    });
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
fn bodies_may_leave_their_thread_bound_to_another_context() {
    on_both(|settings| _ = report(&settings.clone().with("STANDIN_DEVICES", 2), "thread_left_unbound"));
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

/// What a launch requests besides its threads, and what the device lacks of that.
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
fn code_refused_by_the_driver_fails_its_task() {
    on_both(|settings| _ = report(settings, "raw::refused_code"));
}

#[test]
fn array_is_page_locked_on_request() {
    on_both(|settings| {
        let Some(report) = report(settings, "pin_memory") else { return };
        assert_eq!(report.of("page-locked bytes") - report.of("staging bytes"), 8000, "{report:?}");
    });
}

#[test]
fn users_binding_to_a_device_is_restored() {
    on_both(|settings| _ = report(&settings.clone().with("STANDIN_DEVICES", 2), "memory::users_binding_stays"));
}

/// The runtime may neither lock such memory again nor unlock it.
#[test]
fn memory_locked_by_others_is_used_as_it_is() {
    on_both(|settings| {
        let Some(report) = report(settings, "memory::locked_by_others") else { return };
        let locks = report.of("page-locked bytes") - report.of("staging bytes");
        assert!((2 << 20..4 << 20).contains(&locks), "only the owner's: {report:?}");
    });
}

#[test]
fn adopted_device_memory_is_used_in_place() {
    on_both(|settings| {
        let Some(report) = report(settings, "memory::adopted") else { return };
        if !sanitizes() {
            assert_eq!(report.of("copies in"), 2, "only the array's producer may copy: {report:?}");
        }
        _ = self::report(settings, "memory::adopted_with_gaps");
        _ = self::report(&settings.clone().with("STANDIN_MEMORY", 72_000), "memory::adopted_and_evicted");
        for peers in [0, 1] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_PEERS", peers);
            _ = self::report(&settings, "memory::adopted_beside_others");
        }
        _ = self::report(&settings.clone().with("STANDIN_DEVICES", 2), "memory::refused");
    });
}

#[test]
fn exported_device_memory_is_used_in_place() {
    on_both(|settings| {
        let Some(report) = report(settings, "memory::lent") else { return };
        assert!(report.of("copies in") < 10, "exporting must not copy each time: {report:?}");
        _ = self::report(settings, "memory::lent_to_be_written");
        _ = self::report(&settings.clone().with("STANDIN_MEMORY", 40_000), "memory::lent_while_others_need_the_room");
        _ = self::report(settings, "memory::lent_to_another_runtime");
    });
}

#[test]
fn device_loss_with_adopted_and_exported_memory_is_survived() {
    on_both(|settings| {
        for operation in [5, 40, 90] {
            let settings = settings.clone().with("STANDIN_LOSE", format!("0:{operation}"));
            let Some(report) = report(&settings, "memory::lost") else { return };
            assert_eq!(report.of("devices lost"), 1, "{report:?}");
        }
    });
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

#[test]
fn device_loss_with_unified_memory_is_survived() {
    on_both(|settings| {
        for operation in [0, 5, 40, 90] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_LOSE", format!("0:{operation}"));
            let Some(report) = report(&settings, "unified::lost") else { return };
            assert_eq!(report.of("devices lost"), 1, "{report:?}");
        }
    });
}

/// A device is lost during some operation, which may be a copy or a kernel, early or late. It is either the only device
/// or one of two.
#[test]
fn device_loss_is_survived() {
    on_both(|settings| {
        let kind = settings.units;
        for (units, devices) in [("1:CPU:1,2:KIND:1", 2), ("2:KIND:1", 2), ("1:KIND:1", 1)] {
            for operation in [0, 3, 30, 60, 200, 500] {
                let settings =
                    settings.clone().with("STANDIN_DEVICES", devices).with("STANDIN_LOSE", format!("0:{operation}"));
                let settings = settings.with("STANDIN_MACHINE", units.replace("KIND", kind));
                let Some(report) = report(&settings, "loss") else { return };
                // How much of the work reaches the device depends on timing.
                let lost = report.of("devices lost");
                assert!(lost == 1 || operation > 30 && lost == 0, "{units} {operation} {report:?}");
            }
        }
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

#[test]
fn device_loss_in_tasks_across_devices_is_survived() {
    on_both(|settings| {
        for units in ["1:CPU:1,1:KIND:2", "1:KIND:2"] {
            for (device, operation) in [(0, 0), (1, 3), (0, 30), (1, 60), (1, 200), (0, 500)] {
                let settings = settings.clone().with("STANDIN_DEVICES", 2);
                let settings = settings.with("STANDIN_LOSE", format!("{device}:{operation}"));
                let machine = units.replace("KIND", settings.units);
                let settings = settings.with("STANDIN_MACHINE", machine);
                let Some(report) = report(&settings, "across::loss") else { return };
                let lost = report.of("devices lost");
                assert!(lost == 1 || operation > 30 && lost == 0, "{units} {device} {operation} {report:?}");
            }
        }
    });
}

/// Runs the tests of the public API, including the checks of compiler messages.
#[test]
fn public_api_suite_passes_on_both_interfaces() {
    on_both(|settings| {
        let Some(built) = drivers::built() else { return };
        let settings = settings.clone().with("THALWEG_REQUIRE", settings.units.to_lowercase());
        let (_, report) = run(&settings, &built.of("accelerators"), &["--skip", "abandoned::"]);
        report.is_clean();
        report.has_launched();
        // An abandoned runtime keeps its devices' memory, because bodies may still use it.
        _ = run(&settings, &built.of("accelerators"), &["abandoned::"]);
    });
}

/// The clocks of devices drift, as the clocks of real devices do.
#[test]
fn traces_follow_the_clocks_of_devices() {
    on_both(|settings| {
        let Some(built) = drivers::built() else { return };
        for ppm in [0, 80, -80] {
            let settings = settings.clone().with("STANDIN_CLOCK_PPM", ppm).with("STANDIN_DELAY_US", 500);
            let (output, report) = run(&settings, &built.of("accelerators"), &["traces::"]);
            assert!(output.contains("test result: ok. 2 passed"), "{output}");
            assert!(report.of("timed events") > 0 && report.sum("cuEventElapsed") + report.sum("hipEventElapsed") > 0);
            report.is_clean();
        }
    });
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
