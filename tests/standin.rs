//! CUDA and HIP without a GPU: the real backends on stand-in drivers (`tests/standin/core.hpp` says what these are and what
//! they can't show). Every program runs in a process of its own, whose loader finds the stand-in first, and leaves a report
//! of what was called and of what is left.
//!
//! Needs a C++ compiler `c++`; without one all is skipped, unless `THALWEG_REQUIRE` has `standin`.

#![allow(unsafe_code, unreachable_pub)] // texts of kernels are vouched for; the modules below are parts of this file

#[path = "standin/across.rs"]
mod across;
#[path = "common/cargo.rs"]
mod cargo;
#[path = "standin/drivers.rs"]
mod drivers;
#[path = "standin/graphs.rs"]
mod graphs;
#[path = "standin/memory.rs"]
mod memory;
#[path = "standin/programs.rs"]
mod programs;
#[path = "common/random.rs"]
mod random;
#[path = "standin/raw.rs"]
mod raw;
#[path = "standin/unified.rs"]
mod unified;

use drivers::{CUDA, CUDA_WITHOUT_NVRTC, HIP, OPENCL, Report, Settings, run};

/// An example program, which has to verify what it computes.
fn example(settings: &Settings, name: &str, arguments: &str) {
    let Some(built) = drivers::built() else { return };
    let arguments: Vec<_> = arguments.split(' ').chain(["--no-progress"]).collect();
    let (output, report) = run(settings, &built.example(name), &arguments);
    assert_eq!(output.lines().last(), Some("VERIFIED"), "{name} {arguments:?}: {output}");
    report.is_clean();
    report.has_launched();
}

/// The examples on one device, on one beside a core, and on two. What takes long runs optimized only, as CI has it.
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

/// The whole suite that every kind of device has to pass, on two devices.
fn conformance(settings: &Settings) {
    let Some(built) = drivers::built() else { return };
    let settings = settings.clone().with("STANDIN_DEVICES", 2).with("THALWEG_REQUIRE", settings.units.to_lowercase());
    let tests = format!("{}::", settings.units.to_lowercase());
    let (output, report) = run(&settings, &built.of("conformance"), &[&tests]);
    assert!(output.contains("test result: ok. 19 passed; 0 failed; 0 ignored"), "{output}");
    report.is_clean();
}

#[test]
fn conformance_on_cuda() {
    conformance(&CUDA);
}

#[test]
fn conformance_on_hip() {
    conformance(&HIP);
}

/// OpenCL with a layer, by which the implementation for cores looks like one for GPUs.
fn opencl_gpu() -> Option<Settings> {
    Some(OPENCL.clone().with("OPENCL_LAYERS", drivers::layer()?.display()))
}

#[test]
fn opencl_copies_by_way_of_page_locked_memory() {
    let Some(settings) = opencl_gpu() else { return };
    let settings = settings.with("THALWEG_REQUIRE", "opencl").with("POCL_DEVICES", "pthread pthread");
    let built = drivers::built().expect("the layer was");
    let (output, report) = run(&settings, &built.of("conformance"), &["opencl::"]);
    assert!(output.contains("test result: ok. 18 passed; 0 failed; 0 ignored"), "{output}");
    report.is_clean();
    assert_eq!(report.of("pageable copies"), 0, "{report:?}");
    assert!(report.of("locked copies in") > 1000 && report.of("locked copies out") > 1000, "{report:?}");
}

/// OpenCL locks no memory that it is given: large copies go in pieces by way of what it has.
#[test]
fn opencl_copies_large_arrays_by_way_of_page_locked_memory() {
    let Some(settings) = opencl_gpu() else { return };
    let Some(report) = report(&settings, "large_boxes") else { return };
    assert_eq!(report.of("pageable copies"), 0, "{report:?}");
    // 8 MB three times there and back, and more.
    assert!(report.of("locked copies in") > 24 && report.of("locked copies out") > 24, "{report:?}");
}

/// Where buffers get their memory when they are first used, it is refused by copies and launches.
#[test]
fn opencl_that_gives_memory_late() {
    let Some(settings) = opencl_gpu() else { return };
    for code in [-4, -5] {
        let settings = settings.clone().with("STANDIN_REFUSAL", code);
        for holds in [2 << 20, 3 << 20, 5 << 20] {
            let Some(report) = report(&settings.clone().with("STANDIN_HOLDS", holds), "shortage") else { return };
            assert!(report.of("refused allocations") > 0, "{report:?}");
        }
        _ = report(&settings.with("STANDIN_HOLDS", 1 << 20), "too_much");
    }
}

/// What one of our own programs has called; all there is left is a report.
fn report(settings: &Settings, program: &str) -> Option<Report> {
    let report = drivers::run_own(settings, program)?;
    report.is_clean();
    Some(report)
}

/// Tests what one of our own programs calls, on both interfaces.
fn on_both(test: impl Fn(&Settings)) {
    test(&CUDA);
    test(&HIP);
}

/// What is launched by graphs, as far as it is worth one: the first two replays are not.
#[test]
fn replays_become_graphs() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::steady") else { return };
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
        // What is there before the first graph, and at the end, is in this.
        assert!(report.calls() - 2 * tasks as i64 <= (tasks * replays / 10) as i64, "{report:?}");
    });
}

#[test]
fn replays_with_other_parameters_change_graphs() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::changing") else { return };
        let changes = report.of("cuGraphExecKernelNodeSetParams_v2") + report.of("hipGraphExecKernelNodeSetParams");
        assert!(changes > 0 && report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn graphs_on_two_devices() {
    on_both(|settings| {
        let Some(report) = report(&settings.clone().with("STANDIN_DEVICES", 2), "graphs::on_two_devices") else {
            return;
        };
        assert!(report.of("graph launches") > 0, "{report:?}");
        for program in ["graphs::for_one_device", "graphs::spread"] {
            let report = self::report(&settings.clone().with("STANDIN_DEVICES", 2), program).expect("it was there");
            assert!(report.of("graph launches") > 0, "{program} {report:?}");
        }
    });
}

#[test]
fn graphs_with_scratch_memory() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::scratch") else { return };
        assert!(report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn graphs_of_tasks_with_indices() {
    on_both(|settings| {
        let Some(report) = report(&settings.clone().with("STANDIN_DEVICES", 2), "graphs::indexed") else { return };
        assert!(report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn graphs_whose_memory_comes_and_goes() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::evicted") else { return };
        assert!(report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn devices_that_get_lost_during_replays() {
    on_both(|settings| {
        for operation in [2, 20, 60] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_LOSE", format!("0:{operation}"));
            let Some(report) = report(&settings, "graphs::loss") else { return };
            assert!(report.of("graph launches") > 0, "{operation} {report:?}");
        }
    });
}

/// With failures, and with memory for some of the data at a time.
#[test]
fn replays_on_devices_are_what_their_tasks_would_be() {
    on_both(|settings| {
        for memory in [1 << 20, 4500] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_MEMORY", memory);
            let Some(report) = report(&settings, "graphs::random_programs") else { return };
            assert!(report.of("graph launches") > 0, "{report:?}");
        }
    });
}

/// OpenCL's command buffers, which keep their values: they are used where the implementation for cores looks like one for GPUs.
#[test]
fn replays_become_command_buffers() {
    let Some(settings) = opencl_gpu() else { return };
    let settings = settings.with("POCL_DEVICES", "pthread pthread");
    let of = |program: &str| report(&settings, program).expect("the layer was built");
    let (report, tasks) = (of("graphs::steady"), graphs::CHAINS * (graphs::LENGTH + 1));
    assert_eq!(report.of("graph launches"), graphs::REPLAYS as i64 - 1, "{report:?}");
    assert_eq!(report.launches(), tasks as i64, "of the first replay alone");
    // Of three replays with the same values the second makes one and the third finds it.
    let report = of("graphs::changing");
    assert_eq!((report.of("graph launches"), report.launches()), (2 * 20 * 2, 2 * 20 * 5), "{report:?}");
    for program in ["graphs::scratch", "graphs::evicted", "graphs::on_two_devices", "graphs::random_programs"] {
        let report = of(program);
        assert!(report.of("graph launches") > 0, "{program} {report:?}");
    }
    _ = of("graphs::for_one_device");
    _ = of("graphs::spread");
}

/// On cores recorded tasks are submitted as one, too, and launched one by one.
#[test]
fn replays_on_cores_are_what_their_tasks_would_be() {
    if drivers::layer().is_none() {
        return; // there is no OpenCL
    }
    let settings = OPENCL.clone().with("POCL_DEVICES", "pthread pthread");
    for program in [
        "steady",
        "changing",
        "scratch",
        "evicted",
        "indexed",
        "on_two_devices",
        "for_one_device",
        "spread",
        "random_programs",
    ] {
        drivers::run_own(&settings, &format!("graphs::{program}")).expect("the layer was built");
    }
}

/// Calls that belong together take one binding of their context with them, not one each: a launch with its event, and how
/// many launches follow each other, depends on how fast the device is seen to be.
#[test]
fn a_chain_takes_few_calls_and_one_stream() {
    on_both(|settings| {
        let Some(report) = report(&settings.clone().with("STANDIN_DELAY_US", 0), "chain") else { return };
        println!(
            "{}: {} launches, {} other calls",
            settings.units,
            report.launches(),
            report.calls() - report.launches()
        );
        assert_eq!(report.launches(), programs::CHAIN as i64);
        let waits = report.of("cuStreamWaitEvent") + report.of("hipStreamWaitEvent");
        let binds = report.of("cuCtxSetCurrent") + report.of("hipSetDevice");
        assert!(waits == 0 && binds < programs::CHAIN as i64 && report.of("blocking copies") == 0, "{report:?}");
    });
}

/// A chain begins on a stream that has least in flight. How many have something goes with how fast kernels are issued here, and
/// end: ten or so while this machine is idle, all sixteen while others keep its cores busy. (That tasks which know nothing of
/// each other use all streams is tested where streams are chosen.) So one of three runs has to show more than a few.
#[test]
fn independent_chains_go_to_many_streams() {
    on_both(|settings| {
        let mut most = 0;
        for _ in 0..3 {
            let Some(report) = report(settings, "chains") else { return };
            let streams: Vec<_> = report.starting("launches on stream").map(|(_, launches)| launches).collect();
            println!("{}: launches {streams:?}, {} other calls", settings.units, report.calls() - report.launches());
            assert_eq!(streams.iter().sum::<i64>(), (programs::CHAINS * 20 + 1) as i64);
            assert_eq!(report.of("blocking copies"), 0);
            most = most.max(streams.len());
            if most >= 6 {
                return;
            }
        }
        panic!("{}: {most} streams of 16 are used at most", settings.units);
    });
}

#[test]
fn reductions_hold_nobody_up() {
    on_both(|settings| {
        let Some(report) = report(settings, "reductions") else { return };
        assert_eq!(report.of("blocking copies"), 0, "{report:?}");
        assert!(report.of("copies out") >= programs::REDUCTIONS as i64, "{report:?}");
    });
}

#[test]
fn bodies_may_bind_their_thread_elsewhere() {
    on_both(|settings| _ = report(&settings.clone().with("STANDIN_DEVICES", 2), "strangers"));
}

#[test]
fn kept_scratch_memory_makes_room() {
    on_both(|settings| _ = report(&settings.clone().with("STANDIN_MEMORY", 12 << 20), "scratch"));
}

#[test]
fn a_device_that_has_less_than_it_says() {
    on_both(|settings| {
        for holds in [2 << 20, 3 << 20, 5 << 20] {
            let Some(report) = report(&settings.clone().with("STANDIN_HOLDS", holds), "shortage") else { return };
            assert!(report.of("refused allocations") > 0, "{report:?}");
        }
        _ = report(&settings.clone().with("STANDIN_HOLDS", 1 << 20), "too_much");
    });
}

#[test]
fn one_allocation_that_is_refused() {
    on_both(|settings| {
        for number in [1, 2, 5, 13, 20, 26, 31] {
            let Some(report) = report(&settings.clone().with("STANDIN_REFUSE", number), "shortage") else { return };
            assert_eq!(report.of("refused allocations"), 1, "{report:?}");
        }
    });
}

#[test]
fn arrays_are_page_locked_for_their_second_copy() {
    on_both(|settings| {
        let Some(report) = report(settings, "large_arrays") else { return };
        assert_eq!(report.of("page-locked bytes") - report.of("staging bytes"), 8 << 18, "{report:?}");
    });
}

#[test]
fn bodies_call_the_interface_themselves() {
    on_both(|settings| {
        let Some(report) = report(settings, "raw::copies") else { return };
        assert!(report.of("copies across") >= raw::COPIES as i64, "{report:?}");
    });
}

#[test]
fn a_unit_of_kind_gpu_runs_bodies_of_its_interface() {
    on_both(|settings| _ = report(settings, "raw::on_any_gpu"));
}

#[test]
fn what_a_raw_body_fails_with_fails_its_task_alone() {
    on_both(|settings| _ = report(settings, "raw::failures"));
}

/// AMD's runtime ends the process instead.
#[test]
fn a_raw_body_that_breaks_the_device_loses_it() {
    report(&CUDA, "raw::breaks_the_device");
}

#[test]
fn modules_of_ones_own() {
    on_both(|settings| _ = report(settings, "raw::modules"));
}

#[test]
fn code_that_the_driver_refuses() {
    on_both(|settings| _ = report(settings, "raw::refused_code"));
}

#[test]
fn arrays_are_page_locked_by_request() {
    on_both(|settings| {
        let Some(report) = report(settings, "pin_memory") else { return };
        assert_eq!(report.of("page-locked bytes") - report.of("staging bytes"), 8000, "{report:?}");
    });
}

#[test]
fn memory_of_others_is_used_where_it_lies() {
    on_both(|settings| {
        let Some(report) = report(settings, "memory::adopted") else { return };
        assert_eq!(report.of("copies in"), 2, "those by which it was written: {report:?}");
        _ = self::report(settings, "memory::adopted_with_gaps");
        _ = self::report(&settings.clone().with("STANDIN_MEMORY", 72_000), "memory::adopted_and_evicted");
        for peers in [0, 1] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_PEERS", peers);
            _ = self::report(&settings, "memory::adopted_beside_others");
        }
        _ = self::report(&settings.clone().with("STANDIN_DEVICES", 2), "memory::refused");
    });
}

/// The example `numpy`, from Python, with arrays as CuPy has them.
#[test]
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn python_gives_and_gets_memory_of_a_device() {
    let Some(built) = drivers::built() else { return };
    let python = std::env::var("THALWEG_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if std::process::Command::new(&python).arg("--version").output().is_err() {
        return println!("skipped: there is no `{python}`");
    }
    let library = built.example("jacobi").with_file_name("libnumpy.so");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/numpy/device.py");
    let (output, report) = run(&CUDA, python.as_ref(), &[script, &library.display().to_string()]);
    assert_eq!(output.lines().last(), Some("VERIFIED"), "{output}");
    report.is_clean();
    report.has_launched();
}

#[test]
fn memory_is_lent_where_it_lies() {
    on_both(|settings| {
        let Some(report) = report(settings, "memory::lent") else { return };
        assert!(report.of("copies in") < 10, "not for each that is lent: {report:?}");
        _ = self::report(settings, "memory::lent_to_be_written");
        _ = self::report(&settings.clone().with("STANDIN_MEMORY", 40_000), "memory::lent_while_others_need_the_room");
        _ = self::report(settings, "memory::lent_to_another_runtime");
    });
}

#[test]
fn devices_that_get_lost_with_memory_of_others() {
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
fn unified_memory_is_used_where_it_lies() {
    on_both(|settings| {
        let small = settings.clone().with("STANDIN_MEMORY", 72_000);
        let Some(report) = report(&small, "unified::larger_than_a_device") else { return };
        assert_eq!((unified_allocations(&report), report.of("unified bytes")), (1, 8 * unified::LARGE as i64));
        assert!(report.of("prefetches to devices") > 0 && report.of("page-locked bytes") == report.of("staging bytes"));
        let report = self::report(settings, "unified::replayed").expect("it was there");
        let copies = report.of("copies in") + report.of("copies out") + report.of("copies across");
        assert!(copies == 0 && report.of("graph launches") > 0, "{report:?}");
        let report = self::report(settings, "unified::dropped").expect("it was there");
        assert_eq!(unified_allocations(&report), 23, "{report:?}");
        for peers in [0, 1] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_PEERS", peers);
            _ = self::report(&settings, "unified::across_devices");
        }
    });
}

#[test]
fn unified_memory_holds_what_its_tasks_would_leave_one_by_one() {
    on_both(|settings| {
        for devices in [1, 2] {
            let settings = settings.clone().with("STANDIN_DEVICES", devices);
            let Some(report) = report(&settings, "unified::random_programs") else { return };
            assert!(report.of("prefetches to the host") > 0, "{report:?}");
        }
        // Kernels so late that whoever does not wait for them is there before.
        let slow = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_DELAY_US", 1000);
        _ = report(&slow, "unified::overwritten_behind_readers");
    });
}

#[test]
fn where_there_is_no_unified_memory_it_is_ordinary() {
    on_both(|settings| {
        for name in ["STANDIN_MANAGED", "STANDIN_CONCURRENT"] {
            let Some(report) = report(&settings.clone().with(name, 0), "unified::ordinary") else { return };
            assert_eq!(unified_allocations(&report), 0, "{report:?}");
        }
        let report = self::report(&settings.clone().with("STANDIN_REFUSE_MANAGED", 0), "unified::ordinary");
        assert_eq!(unified_allocations(&report.expect("it was there")), 1);
    });
}

#[test]
fn devices_that_get_lost_with_unified_memory() {
    on_both(|settings| {
        for operation in [0, 5, 40, 90] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_LOSE", format!("0:{operation}"));
            let Some(report) = report(&settings, "unified::lost") else { return };
            assert_eq!(report.of("devices lost"), 1, "{report:?}");
        }
    });
}

/// A device that is lost at some operation of many: in a copy or a kernel, early or late; beside others and alone.
#[test]
fn devices_that_get_lost() {
    on_both(|settings| {
        let kind = settings.units;
        for (units, devices) in [("1:CPU:1,2:KIND:1", 2), ("2:KIND:1", 2), ("1:KIND:1", 1)] {
            for operation in [0, 3, 30, 60, 200, 500] {
                let settings =
                    settings.clone().with("STANDIN_DEVICES", devices).with("STANDIN_LOSE", format!("0:{operation}"));
                let settings = settings.with("STANDIN_MACHINE", units.replace("KIND", kind));
                let Some(report) = report(&settings, "loss") else { return };
                // How much of the work comes to the device is a matter of time.
                let lost = report.of("devices lost");
                assert!(lost == 1 || operation > 30 && lost == 0, "{units} {operation} {report:?}");
            }
        }
    });
}

/// Tasks across two devices, which have access to each other's memory or have not.
#[test]
fn tasks_across_devices() {
    on_both(|settings| {
        let settings = settings.clone().with("STANDIN_DEVICES", 2);
        let Some(report) = report(&settings, "across::peers") else { return };
        assert!(report.of("reaches for peers") > 0, "{report:?}");
        let report = self::report(&settings.clone().with("STANDIN_PEERS", 0), "across::peers").expect("it was there");
        assert_eq!(report.of("reaches for peers"), 0, "{report:?}");
        self::report(&settings, "across::raw");
    });
}

#[test]
fn devices_that_get_lost_from_tasks_across_them() {
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

/// The suite of the public API, with the compilers' messages.
#[test]
fn the_public_api_on_both() {
    on_both(|settings| {
        let Some(built) = drivers::built() else { return };
        let settings = settings.clone().with("THALWEG_REQUIRE", settings.units.to_lowercase());
        let (_, report) = run(&settings, &built.of("accelerators"), &[]);
        report.is_clean();
        report.has_launched();
    });
}

#[test]
fn compilers_and_drivers_of_different_releases() {
    // Of the same major release the driver takes code, also that of an older architecture of its generation.
    let newer = CUDA.clone().with("STANDIN_DRIVER", 12040).with("STANDIN_NVRTC", 12080).with("STANDIN_ARCH", 89);
    let Some(_) = report(&newer, "one") else { return };
    // Where it takes no code there is PTX.
    report(&CUDA.clone().with("STANDIN_REFUSE_CODE", 1), "one");
    // A compiler of the next major release is of no use.
    let expected = "try a compiler that is not newer than the driver";
    let too_new = newer.with("STANDIN_NVRTC", 13000).with("STANDIN_EXPECTED", expected);
    report(&too_new, "without_a_compiler");
}

#[test]
fn what_was_compiled_before_runs_without_a_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().display().to_string();
    let settings = CUDA_WITHOUT_NVRTC.clone().with("STANDIN_EXPECTED", "NVRTC").with("THALWEG_CACHE_DIR", &cache);
    let Some(_) = report(&settings, "without_a_compiler") else { return };
    report(&CUDA.clone().with("THALWEG_CACHE_DIR", &cache), "one");
    let report = report(&settings, "one").unwrap();
    assert_eq!((report.of("compilations"), report.launches()), (0, 1), "{report:?}");
}
